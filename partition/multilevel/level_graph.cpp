// SPDX-License-Identifier: Apache-2.0
#include "multilevel/level_graph.hpp"

#include <algorithm>
#include <atomic>
#include <numeric>

namespace strata::partition {
namespace {

constexpr Count kGrain = Count{1} << 12;

}  // namespace

std::vector<Count> total_weights(const LevelGraph& graph) {
  std::vector<Count> totals(at(graph.num_constraints));
  if (graph.node_weights.empty()) return {graph.num_nodes};
  for (std::size_t i = 0; i < graph.node_weights.size(); ++i)
    totals[i % totals.size()] += graph.node_weights[i];
  return totals;
}

std::vector<Count> heaviest_nodes(const LevelGraph& graph) {
  if (graph.node_weights.empty()) return {1};
  std::vector<Count> most(at(graph.num_constraints));
  for (std::size_t i = 0; i < graph.node_weights.size(); ++i)
    most[i % most.size()] = std::max(most[i % most.size()], graph.node_weights[i]);
  return most;
}

Count cut_of(const LevelGraph& graph, const std::vector<std::int32_t>& part_of, ThreadPool& pool) {
  std::atomic<Count> twice{0};
  const std::int32_t* parts = part_of.data();
  pool.parallel_for(graph.num_nodes, kGrain, [&](Count first, Count last) {
    graph.release_pages();
    Count sum = 0;
    for (Count v = first; v < last; ++v) {
      for (Count e = graph.begin[v]; e < graph.begin[v + 1]; ++e)
        if (parts[graph.ids[e]] != parts[v]) sum += graph.edge_weight(e);
    }
    twice += sum;
  });
  return twice / 2;
}

Count total_edge_weight(const LevelGraph& graph, ThreadPool& pool) {
  if (graph.edge_weights == nullptr) return graph.num_entries();
  std::atomic<Count> total{0};
  pool.parallel_for(graph.num_entries(), Count{1} << 16, [&](Count first, Count last) {
    graph.release_pages();
    total += std::accumulate(graph.edge_weights + first, graph.edge_weights + last, Count{0});
  });
  return total;
}

}  // namespace strata::partition
