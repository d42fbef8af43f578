// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <utility>

#include "hold_out.hpp"
#include "readers/node_files.hpp"
#include "strata/graph/edge_split.hpp"
#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

using Pair = std::pair<NodeId, NodeId>;  // the lesser one first

Pair pair_of(NodeId u, NodeId v) { return {std::min(u, v), std::max(u, v)}; }

bool are_reverse(const EdgeType& a, const EdgeType& b) {
  if (a.source != b.destination || a.destination != b.source) return false;
  return a.name == "rev_" + b.name || b.name == "rev_" + a.name;
}

/// Numbers of the relations that options name; all if they name none.
std::vector<std::size_t> relations_named(const GraphTypes& types, const std::vector<std::string>& names) {
  std::vector<std::size_t> relations;
  for (std::size_t r = 0; names.empty() && r < types.edges.size(); ++r) relations.push_back(r);
  for (const std::string& name : names) {
    const auto found = std::ranges::find(types.edges, name, joined_name_of);
    if (found == types.edges.end())
      throw InputError(fmt::format("edges of '{}' cannot be split: the graph has no such relation", name),
                       fmt::format("Name one as {}; strata-partition info lists them.",
                                   joined_name_of(types.edges.front())));
    relations.push_back(at(found - types.edges.begin()));
  }
  return relations;
}

class EdgeSplitter {
 public:
  EdgeSplitter(Graph& graph, const EdgeSplitOptions& options, std::uint64_t seed, ThreadPool& pool)
      : graph_(graph),
        options_(options),
        pool_(pool),
        named_(relations_named(graph.types, options.relations)) {
    draw_ = {.seed = seed,
             .valid = options.valid,
             .test = options.test,
             .relations = with_reverses(graph.types, named_)};
  }

  void run() {
    if (!options_.draws()) find_given();
    hold_out(graph_, [this](int relation, NodeId source, NodeId destination, EdgeId) {
      if (!draw_.draws(relation)) return Split::train;
      return options_.draws() ? draw_.of(source, destination) : given(pair_of(source, destination));
    });
  }

 private:
  Split given(const Pair& pair) const {
    if (std::ranges::binary_search(pairs_[0], pair)) return Split::valid;
    return std::ranges::binary_search(pairs_[1], pair) ? Split::test : Split::train;
  }

  /// Finds the ends of the given edges.
  void find_given() {
    if (named_.size() != 1)
      throw InputError("edges to hold out are given by their ids, but not of which relation",
                       "Name it: --split-relation SOURCE__NAME__DESTINATION.");
    const Range edges = edges_of_relation(graph_.types, named_.front(), largest_edge() + 1);
    const std::array ids{read_ids(options_.valid_ids, edges), read_ids(options_.test_ids, edges)};
    std::vector<EdgeId> both;
    std::ranges::set_intersection(ids[0], ids[1], std::back_inserter(both));
    if (!both.empty())
      throw InputError(
          fmt::format("edge {} is given for validation and for test", both.front() - edges.first),
          "Give each edge once.");
    const CscGraph& lists = graph_.structure;
    for (NodeId node = 0; node < lists.num_nodes; ++node)
      for (Count e = lists.indptr[at(node)]; e < lists.indptr[at(node) + 1]; ++e)
        for (std::size_t split = 0; split < ids.size(); ++split)
          if (std::ranges::binary_search(ids[split], edge_at(e)))
            pairs_[split].push_back(pair_of(lists.indices[at(e)], node));
    for (std::vector<Pair>& pairs : pairs_) std::ranges::sort(pairs);
  }

  EdgeId edge_at(Count entry) const {
    const std::vector<EdgeId>& ids = graph_.structure.edge_ids;
    return ids.empty() ? entry : ids[at(entry)];
  }

  EdgeId largest_edge() const {
    const CscGraph& lists = graph_.structure;
    if (lists.edge_ids.empty()) return lists.num_edges() - 1;
    return std::ranges::max(lists.edge_ids);
  }

  /// Edge ids of a file, ascending; in the graph's numbers.
  std::vector<EdgeId> read_ids(const std::filesystem::path& file, const Range& edges) const {
    if (file.empty()) return {};
    Graph of_edges;  // what files say of nodes by number, they say here of edges
    of_edges.structure.num_nodes = edges.count;
    std::vector<EdgeId> ids = read_split_file(of_edges, file, pool_);
    std::ranges::sort(ids);
    if (!ids.empty() && (ids.front() < 0 || ids.back() >= edges.count))
      throw InputError(fmt::format("{}: edge {}, but the relation has edges 0 to {}", file.string(),
                                   ids.front() < 0 ? ids.front() : ids.back(), edges.count - 1),
                       "Give positions among the edges of the relation, as the input lists them.");
    for (EdgeId& id : ids) id += edges.first;
    return ids;
  }

  Graph& graph_;
  const EdgeSplitOptions& options_;
  ThreadPool& pool_;
  std::vector<std::size_t> named_;
  EdgeSplit draw_;
  std::array<std::vector<Pair>, 2> pairs_;  // of given edges of validation and test, ascending
};

}  // namespace

std::vector<bool> with_reverses(const GraphTypes& types, const std::vector<std::size_t>& relations) {
  std::vector<bool> marks(types.edges.size());
  for (const std::size_t r : relations)
    for (std::size_t other = 0; other < types.edges.size(); ++other)
      if (other == r || are_reverse(types.edges[r], types.edges[other])) marks[other] = true;
  return marks;
}

void split_edges(Graph& graph, const EdgeSplitOptions& options, std::uint64_t seed, ThreadPool& pool) {
  if (graph.edge_splits.any())
    throw InputError(fmt::format("{}: the input has edges of validation and test already", graph.name),
                     "Leave --edge-split out.");
  if (graph.structure.num_edges() == 0) return;
  const Count before = graph.structure.num_edges();
  EdgeSplitter(graph, options, seed, pool).run();
  spdlog::info("{} and {} of validation and test are held out: {} of {} edges are left in neighbor lists",
               counted(graph.edge_splits.valid.size(), "edge"), format_count(graph.edge_splits.test.size()),
               format_count(graph.structure.num_edges()), format_count(before));
}

}  // namespace strata::graph
