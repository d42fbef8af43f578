// SPDX-License-Identifier: Apache-2.0
#include "assign/metis_assign.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "assign/balance.hpp"
#include "assign/metis_graph.hpp"
#include "assign/metis_kway.hpp"

namespace strata::partition {
namespace {

/// The requested weights, if METIS can add them up.
Weights metis_weights(const CompactGraph& graph, const std::vector<NodeId>& train,
                      const AssignOptions& options) {
  Weights weights = usable_weights(graph, train, options);
  for (const auto& w : weights)
    check_metis_limits({.nodes = graph.num_nodes, .weight = total(w), .imbalance = options.imbalance},
                       8 * sizeof(idx_t));
  return weights;
}

std::vector<std::int32_t> partition_kway(const CompactGraph& graph, const Weights& weights,
                                         const AssignOptions& options, ThreadPool& pool) {
  MetisGraph metis = make_metis_graph(graph, pool);
  return metis_kway({.xadj = std::move(metis.xadj),
                     .borrowed_ids = metis.adjncy,
                     .num_constraints = std::max(static_cast<int>(weights.size()), 1),
                     .node_weights = interleave<idx_t>(weights, graph.num_nodes)},
                    {.num_parts = options.num_parts, .imbalance = options.imbalance, .seed = options.seed});
}

}  // namespace

std::vector<std::int32_t> metis_assign(const CompactGraph& graph, const std::vector<NodeId>& train,
                                       const AssignOptions& options, ThreadPool& pool) {
  if (options.num_parts == 1) return std::vector<std::int32_t>(at(graph.num_nodes), 0);
  const Weights weights = metis_weights(graph, train, options);
  std::vector<std::int32_t> part_of = partition_kway(graph, weights, options, pool);
  const Count moves = rebalance(graph, weights, limits_of(weights, options), options.num_parts, part_of);
  if (moves > 0) spdlog::debug("moved {} nodes after METIS to keep the asked balance", moves);
  fill_empty_parts(
      options.num_parts, [&](Count v) { return graph.in_degree(v); }, part_of);
  return part_of;
}

}  // namespace strata::partition
