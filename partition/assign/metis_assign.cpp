// SPDX-License-Identifier: Apache-2.0
#include "assign/metis_assign.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "assign/metis_graph.hpp"
#include "strata/util/error.hpp"
#include "strata/util/format.hpp"
#include "strata/util/memory.hpp"

namespace strata::partition {
namespace {

using Weights = std::vector<std::vector<std::int32_t>>;  // [constraint][node]

Count total(const std::vector<std::int32_t>& weights) {
  return std::accumulate(weights.begin(), weights.end(), Count{0});
}

/// The constraints with a positive sum of weights, because METIS divides by the sum.
Weights usable_weights(const CompactGraph& graph, const std::vector<NodeId>& train,
                       const AssignOptions& options) {
  Weights weights;
  for (const Constraint constraint : options.balance) {
    std::vector<std::int32_t> w = weights_of(constraint, graph, train);
    if (total(w) == 0) {
      spdlog::warn("nothing to balance: the graph has no {}",
                   constraint == Constraint::train ? "training nodes" : "edges");
      continue;
    }
    check_metis_limits({.nodes = graph.num_nodes, .weight = total(w), .imbalance = options.imbalance},
                       8 * sizeof(idx_t));
    weights.push_back(std::move(w));
  }
  return weights;
}

/// The weights in METIS's order: all weights of a node next to each other. Empty if every node weighs one,
/// which is METIS's default.
std::vector<idx_t> interleave(const Weights& weights, Count num_nodes) {
  const bool unit =
      weights.empty() || (weights.size() == 1 && std::all_of(weights[0].begin(), weights[0].end(),
                                                             [](std::int32_t w) { return w == 1; }));
  if (unit) return {};
  std::vector<idx_t> all(weights.size() * static_cast<std::size_t>(num_nodes));
  for (std::size_t c = 0; c < weights.size(); ++c) {
    for (std::size_t v = 0; v < static_cast<std::size_t>(num_nodes); ++v)
      all[v * weights.size() + c] = weights[c][v];
  }
  return all;
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
  std::vector<idx_t> vertex_weights = interleave(weights, graph.num_nodes);
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

/// The most that a part may weigh: the requested share, but never less than whole nodes allow.
std::vector<Count> limits_of(const Weights& weights, const AssignOptions& options) {
  std::vector<Count> limits;
  for (const auto& w : weights) {
    const Count mean_up = (total(w) + options.num_parts - 1) / options.num_parts;
    const double share = static_cast<double>(total(w)) / options.num_parts * (1 + options.imbalance);
    limits.push_back(std::max(mean_up, static_cast<Count>(std::floor(share + 1e-9))));
  }
  return limits;
}

}  // namespace

std::vector<std::int32_t> metis_assign(const CompactGraph& graph, const std::vector<NodeId>& train,
                                       const AssignOptions& options, ThreadPool& pool) {
  if (options.num_parts == 1) return std::vector<std::int32_t>(static_cast<std::size_t>(graph.num_nodes), 0);
  const Weights weights = usable_weights(graph, train, options);
  std::vector<std::int32_t> part_of = partition_kway(graph, weights, options, pool);
  const Count moves = rebalance(graph, weights, limits_of(weights, options), options.num_parts, part_of);
  if (moves > 0) spdlog::debug("moved {} nodes after METIS to keep the asked balance", moves);
  return part_of;
}

}  // namespace strata::partition
