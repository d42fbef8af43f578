// SPDX-License-Identifier: Apache-2.0
#include "assign/metis_assign.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>

#include "assign/balance.hpp"
#include "assign/metis_graph.hpp"
#include "strata/util/error.hpp"
#include "strata/util/format.hpp"
#include "strata/util/memory.hpp"

namespace strata::partition {
namespace {

/// The asked weights, if METIS can add them up.
Weights metis_weights(const CompactGraph& graph, const std::vector<NodeId>& train,
                      const AssignOptions& options) {
  Weights weights = usable_weights(graph, train, options);
  for (const auto& w : weights)
    check_metis_limits({.nodes = graph.num_nodes, .weight = total(w), .imbalance = options.imbalance},
                       8 * sizeof(idx_t));
  return weights;
}

void check_status(int status, const CompactGraph& graph) {
  if (status == METIS_OK) return;
  if (status == METIS_ERROR_MEMORY) {
    throw OutOfMemory(fmt::format("METIS found no memory for {} nodes and {} edges; {} are free",
                                  graph.num_nodes, graph.num_edges(), format_bytes(available_host_bytes())),
                      "Use a host with more memory, or --method random or range.");
  }
  throw Error(fmt::format("METIS_PartGraphKway failed with status {}", status));
}

/// gpmetis's defaults: k-way, edge cut, sorted heavy-edge matching, one cut, ten rounds of refinement.
std::vector<std::int32_t> partition_kway(const CompactGraph& graph, const Weights& weights,
                                         const AssignOptions& options, ThreadPool& pool) {
  MetisGraph metis = make_metis_graph(graph, pool);
  std::vector<idx_t> vertex_weights = interleave<idx_t>(weights, graph.num_nodes);
  idx_t settings[METIS_NOPTIONS];
  METIS_SetDefaultOptions(settings);
  settings[METIS_OPTION_OBJTYPE] = METIS_OBJTYPE_CUT;
  settings[METIS_OPTION_CTYPE] = METIS_CTYPE_SHEM;
  settings[METIS_OPTION_NUMBERING] = 0;
  settings[METIS_OPTION_SEED] = static_cast<idx_t>(options.seed & 0x7fffffff);
  settings[METIS_OPTION_UFACTOR] = static_cast<idx_t>(std::max(1.0, std::round(options.imbalance * 1000)));
  idx_t num_nodes = static_cast<idx_t>(graph.num_nodes), num_parts = options.num_parts, cut = 0;
  idx_t num_constraints = static_cast<idx_t>(std::max<std::size_t>(weights.size(), 1));
  std::vector<idx_t> part_of(static_cast<std::size_t>(graph.num_nodes));
  // METIS takes non-const pointers, but changes nothing if the numbering starts at 0.
  check_status(
      METIS_PartGraphKway(&num_nodes, &num_constraints, metis.xadj.data(), const_cast<idx_t*>(metis.adjncy),
                          vertex_weights.empty() ? nullptr : vertex_weights.data(), nullptr, nullptr,
                          &num_parts, nullptr, nullptr, settings, &cut, part_of.data()),
      graph);
  return {part_of.begin(), part_of.end()};
}

}  // namespace

std::vector<std::int32_t> metis_assign(const CompactGraph& graph, const std::vector<NodeId>& train,
                                       const AssignOptions& options, ThreadPool& pool) {
  if (options.num_parts == 1) return std::vector<std::int32_t>(static_cast<std::size_t>(graph.num_nodes), 0);
  const Weights weights = metis_weights(graph, train, options);
  std::vector<std::int32_t> part_of = partition_kway(graph, weights, options, pool);
  const Count moves = rebalance(graph, weights, limits_of(weights, options), options.num_parts, part_of);
  if (moves > 0) spdlog::debug("moved {} nodes after METIS to keep the asked balance", moves);
  return part_of;
}

}  // namespace strata::partition
