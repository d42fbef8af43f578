// SPDX-License-Identifier: Apache-2.0
// What is read of a graph in host memory.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <stdexcept>

#include "loader/agreement.hpp"
#include "loader/expand.hpp"
#include "strata/batches/graph.hpp"
#include "strata/util/error.hpp"
#include "strata/util/label_sets.hpp"

namespace strata::batches {
namespace {

template <typename T, typename From>
void append(std::vector<T>& to, const From& from, Count begin, Count end) {
  for (Count i = begin; i < end; ++i) to.push_back(static_cast<T>(from[i]));
}

/// Where edges are in a list of ids; one of its places for an id that is there several times.
class EdgePlaces {
 public:
  explicit EdgePlaces(std::span<const EdgeId> edges) {
    if (edges.empty()) return;
    const auto [least, most] = std::ranges::minmax(edges);
    first_ = least;
    constexpr EdgeId kDense = 16;  // ids per edge up to which a table takes less than sorting
    if (most - least < kDense * std::ssize(edges)) {
      table_.assign(at(most - least + 1), -1);
      for (std::size_t i = 0; i < edges.size(); ++i) table_[at(edges[i] - first_)] = static_cast<Count>(i);
      return;
    }
    for (const EdgeId edge : edges) sorted_.emplace_back(edge, std::ssize(sorted_));
    std::ranges::sort(sorted_);
  }

  Count find(EdgeId edge) const {  ///< -1: nowhere
    if (!table_.empty())
      return edge >= first_ && edge - first_ < std::ssize(table_) ? table_[at(edge - first_)] : -1;
    const auto found = std::ranges::lower_bound(sorted_, edge, {}, &std::pair<EdgeId, Count>::first);
    return found != sorted_.end() && found->first == edge ? found->second : -1;
  }

 private:
  EdgeId first_ = 0;
  std::vector<Count> table_;
  std::vector<std::pair<EdgeId, Count>> sorted_;
};

}  // namespace

void Graph::check_labels(std::span<const NodeId> ids, bool sets) const {
  const graph::Manifest& facts = manifest();
  if (!facts.has_labels) throw InputError("the graph has no labels", "Build it from an input with labels.");
  const bool rows = facts.multi_label || !facts.targets.empty();
  if (rows != sets) {
    throw InputError(sets ? "nodes have one class each, not sets of them or targets"
                          : "nodes have sets of classes or targets, not one class each",
                     sets ? "Ask for labels." : "Ask for label sets.");
  }
  if (runtime_->topology().num_machines() > 1) {
    throw InputError("other machines have labels of other nodes",
                     "Take the labels that a loader's batches have: NodeLoader(features=True).");
  }
  check_ids(ids, {});
}

void Graph::labels(std::span<const NodeId> ids, std::int64_t* out) const {
  check_labels(ids, false);
  const std::span<const std::int32_t> labels = stored().labels();
  for (const NodeId id : ids) *out++ = labels[at(id)];
}

void Graph::label_sets(std::span<const NodeId> ids, float* out) const {
  check_labels(ids, true);
  const Count cols = manifest().outputs(), words = manifest().label_words();
  const bool targets = !manifest().targets.empty();
  const std::int32_t* const labels = stored().labels().data();
  for (const NodeId id : ids) {
    if (targets)
      std::transform(labels + id * words, labels + (id + 1) * words, out,
                     [](std::int32_t word) { return std::bit_cast<float>(word); });
    else
      expand_label_sets({labels + id * words, 1}, cols, out, {});
    out += cols;
  }
}

Graph::InEdges Graph::in_edges(std::span<const NodeId> nodes) const {
  check_ids(nodes, {});
  const store::GraphView& view = stored().host_lists();
  InEdges edges;
  for (const NodeId node : nodes) {
    if (!view.owns(node)) {
      edges.counts.push_back(0);
      continue;
    }
    const Count begin = view.indptr[node - view.first_node], end = view.indptr[node - view.first_node + 1];
    edges.counts.push_back(end - begin);
    append(edges.sources, view.indices, begin, end);
    if (view.edge_ids.size > 0) append(edges.edge_ids, view.edge_ids, begin, end);
    if (view.weights != nullptr) append(edges.weights, view.weights, begin, end);
  }
  return edges;
}

void Graph::check_edge_ids() const {
  const store::GraphView& view = stored().host_view();
  if (view.edge_ids.size == 0 && view.indices.size > 0)
    throw InputError("the graph was loaded without ids of edges",
                     "Load it with edge_ids=True, or name edges by their ends.");
}

std::vector<EdgeId> Graph::edges_between(EdgeId first, EdgeId end) {
  check_edge_ids();
  const store::GraphView& view = stored().host_view();
  const comm::Communicator& world = runtime_->communicator();
  constexpr EdgeId kBits = 64;
  const auto is_asked = [&](EdgeId edge) { return edge >= first && edge < end; };
  std::int64_t size = 0;  // of the ids that are asked for, whether there are edges or not
  for (Count entry = 0; entry < view.edge_ids.size; ++entry)
    if (is_asked(view.edge_ids[entry])) size = std::max(size, view.edge_ids[entry] - first + 1);
  world.all_reduce(std::span(&size, 1), comm::Communicator::Op::max);
  std::vector<std::int64_t> met(at((size + kBits - 1) / kBits));
  for (Count entry = 0; entry < view.edge_ids.size; ++entry) {
    const EdgeId edge = view.edge_ids[entry];
    if (is_asked(edge)) met[at((edge - first) / kBits)] |= std::int64_t{1} << ((edge - first) % kBits);
  }
  world.all_reduce(met, comm::Communicator::Op::bit_or);
  std::vector<EdgeId> edges;
  for (EdgeId place = 0; place < size; ++place)
    if ((met[at(place / kBits)] >> (place % kBits) & 1) != 0) edges.push_back(first + place);
  return edges;
}

Graph::EdgeEnds Graph::ends_of(std::span<const EdgeId> edges) {
  check_edge_ids();
  check_edges(runtime_->communicator(), edges);
  const store::GraphView& view = stored().host_view();
  const EdgePlaces places(edges);
  const std::vector<NodeId> none(edges.size(), -1);
  // An edge that is listed in both directions has one in each.
  EdgeEnds ends{none, none}, backward{none, none};
  const auto set_ends = [&](NodeId source, NodeId destination, EdgeId edge) {
    const Count place = places.find(edge);
    if (place < 0) return;
    EdgeEnds& to = view.original_ids[source] > view.original_ids[destination] ? backward : ends;
    to.sources[at(place)] = source;
    to.destinations[at(place)] = destination;
  };
  constexpr Count kListsPerPiece = 1024;
  runtime_->caller_pool().parallel_for(view.num_local, kListsPerPiece, [&](Count begin, Count end) {
    for (Count list = begin; list < end; ++list)
      for (Count entry = view.indptr[list]; entry < view.indptr[list + 1]; ++entry)
        set_ends(view.indices[entry], view.first_node + list, view.edge_ids[entry]);
  });
  for (EdgeEnds* found : {&ends, &backward})
    for (std::vector<NodeId>* side : {&found->sources, &found->destinations})
      runtime_->communicator().all_reduce(*side, comm::Communicator::Op::max);
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const auto place = at(places.find(edges[i]));
    const EdgeEnds& found = ends.sources[place] >= 0 ? ends : backward;
    const NodeId source = found.sources[place], destination = found.destinations[place];
    ends.sources[i] = source;
    ends.destinations[i] = destination;
    if (source < 0)
      throw std::out_of_range(fmt::format("index {} is {}, which is no edge of the graph", i, edges[i]));
  }
  return ends;
}

std::vector<double> Graph::keyed_numbers(const sampling::PickQuery& query,
                                         std::span<const Count> counts) const {
  if (counts.size() != query.nodes.size()) {
    throw InputError(
        fmt::format("{} counts of random numbers were given for {} nodes", counts.size(), query.nodes.size()),
        "Give one count per node.");
  }
  check_ids(query.nodes, {});
  const IdSpan& original_ids = stored().host_view().original_ids;
  std::vector<double> numbers;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] < 0)
      throw InputError(fmt::format("a count of random numbers is {}", counts[i]), "Give at least 0.");
    const std::uint64_t key = node_key(query.key, RandomUse::sample, query.hop, original_ids[query.nodes[i]]);
    for (Count j = 0; j < counts[i]; ++j)
      numbers.push_back(unit_double(mix64(key + static_cast<std::uint64_t>(j) * 0x9E3779B97F4A7C15ull)));
  }
  return numbers;
}

}  // namespace strata::batches
