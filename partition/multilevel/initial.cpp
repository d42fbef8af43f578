// SPDX-License-Identifier: Apache-2.0
#include "multilevel/initial.hpp"

#include <algorithm>
#include <numeric>

#include "assign/metis_graph.hpp"

namespace strata::partition {
namespace {

constexpr Count kMostWeight = Count{1} << 30;

/// Bits to shift weights by so that they add up to what METIS can hold.
int shift_for(Count total) {
  int shift = 0;
  while ((total >> shift) > kMostWeight) ++shift;
  return shift;
}

idx_t scaled(Count weight, int shift) {
  return weight == 0 ? 0 : static_cast<idx_t>(std::max<Count>(weight >> shift, 1));
}

std::vector<idx_t> node_weights(const LevelGraph& graph) {
  if (graph.node_weights.empty()) return {};
  std::vector<idx_t> result(graph.node_weights.size());
  const std::vector<Count> totals = total_weights(graph);
  for (std::size_t i = 0; i < result.size(); ++i)
    result[i] = scaled(graph.node_weights[i], shift_for(totals[i % totals.size()]));
  return result;
}

std::vector<idx_t> edge_weights(const LevelGraph& graph) {
  if (graph.edge_weights == nullptr) return {};
  const std::uint32_t *const first = graph.edge_weights, *const last = first + graph.num_entries();
  std::vector<idx_t> result(at(graph.num_entries()));
  const Count total = std::accumulate(first, last, Count{0});
  std::transform(first, last, result.begin(),
                 [shift = shift_for(total)](std::uint32_t w) { return scaled(w, shift); });
  return result;
}

void check_size(const LevelGraph& graph) {
  MetisSize size{.nodes = graph.num_nodes, .entries = graph.num_entries()};
  for (Count v = 0; v < graph.num_nodes; ++v)
    size.most_neighbors = std::max(size.most_neighbors, graph.degree(v));
  check_metis_limits(size, 8 * sizeof(idx_t));
}

}  // namespace

std::vector<std::int32_t> initial_parts(const LevelGraph& graph, const KwayOptions& options) {
  check_size(graph);
  return metis_kway({.xadj = {graph.begin, graph.begin + graph.num_nodes + 1},
                     .own_ids = {graph.ids, graph.ids + graph.num_entries()},
                     .num_constraints = graph.num_constraints,
                     .node_weights = node_weights(graph),
                     .edge_weights = edge_weights(graph)},
                    options);
}

}  // namespace strata::partition
