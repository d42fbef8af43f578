// SPDX-License-Identifier: Apache-2.0
#include "random_walk.hpp"

#include <algorithm>

#include "strata/util/error.hpp"
#include "strata/util/random.hpp"

namespace example {

using strata::Count;
using strata::NodeId;

namespace {

struct Visits {
  NodeId node, original_id;
  Count count;
};

}  // namespace

RandomWalkChooser::RandomWalkChooser(const strata::store::GraphView& graph, const RandomWalkOptions& options,
                                     strata::ThreadPool& pool)
    : graph_(graph), options_(options), pool_(pool) {
  if (options.num_walks < 0 || options.length < 0 || !(options.restart >= 0 && options.restart <= 1))
    throw strata::InputError("random walks: a number is negative, or restart is no probability");
}

void RandomWalkChooser::choose(const strata::sampling::PickQuery& query,
                               strata::sampling::ChosenNeighbors& out) {
  const auto size = static_cast<Count>(query.nodes.size());
  lists_.resize(query.nodes.size());
  pool_.parallel_for(size, 64, [&](Count begin, Count end) {
    for (Count i = begin; i < end; ++i) {
      auto& list = lists_[static_cast<std::size_t>(i)];
      list.clear();
      const NodeId node = query.nodes[static_cast<std::size_t>(i)];
      if (!graph_.owns(node)) continue;
      walk(query, node, list);
      keep_most_visited(query.fanout, list);
    }
  });
  out.counts.clear();
  out.neighbors.clear();
  for (const auto& list : lists_) {
    out.counts.push_back(std::ssize(list));
    out.neighbors.insert(out.neighbors.end(), list.begin(), list.end());
  }
  out.edge_ids.assign(out.neighbors.size(), -1);
}

void RandomWalkChooser::walk(const strata::sampling::PickQuery& query, NodeId start,
                             std::vector<NodeId>& visited) const {
  const std::uint64_t key =
      strata::node_key(query.key, strata::RandomUse::sample, query.hop, graph_.original_ids[start]);
  std::uint64_t draws = 0;
  const auto draw = [&] { return strata::unit_double(strata::mix64(key + draws++ * 0x9E3779B97F4A7C15ull)); };
  for (int w = 0; w < options_.num_walks; ++w) {
    NodeId at = start;
    for (int step = 0; step < options_.length; ++step) {
      if (draw() < options_.restart) at = start;
      if (!graph_.owns(at)) break;
      const Count* const entry = graph_.indptr + (at - graph_.first_node);
      const Count degree = entry[1] - entry[0];
      if (degree == 0) break;
      at = graph_.indices[entry[0] + static_cast<Count>(draw() * static_cast<double>(degree))];
      if (at != start) visited.push_back(at);
    }
  }
}

void RandomWalkChooser::keep_most_visited(int fanout, std::vector<NodeId>& visited) const {
  std::ranges::sort(visited);
  std::vector<Visits> all;
  for (const NodeId node : visited) {
    if (all.empty() || all.back().node != node) all.push_back({node, graph_.original_ids[node], 0});
    ++all.back().count;
  }
  std::ranges::sort(all, [](const Visits& a, const Visits& b) {
    return a.count != b.count ? a.count > b.count : a.original_id < b.original_id;
  });
  if (fanout >= 0 && std::ssize(all) > fanout) all.resize(static_cast<std::size_t>(fanout));
  visited.clear();
  for (const Visits& visits : all) visited.push_back(visits.node);
}

}  // namespace example
