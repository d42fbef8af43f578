// SPDX-License-Identifier: Apache-2.0
#include "multilevel/initial.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "assign/metis_graph.hpp"
#include "strata/util/error.hpp"
#include "strata/util/format.hpp"
#include "strata/util/memory.hpp"

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
  std::vector<idx_t> result(static_cast<std::size_t>(graph.num_entries()));
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

std::vector<std::int32_t> initial_parts(const LevelGraph& graph, const InitialOptions& options) {
  check_size(graph);
  std::vector<idx_t> xadj(graph.begin, graph.begin + graph.num_nodes + 1);
  std::vector<idx_t> ids(graph.ids, graph.ids + graph.num_entries());
  std::vector<idx_t> nodes = node_weights(graph), edges = edge_weights(graph);
  idx_t settings[METIS_NOPTIONS];
  METIS_SetDefaultOptions(settings);
  settings[METIS_OPTION_SEED] = static_cast<idx_t>(options.seed & 0x7fffffff);
  settings[METIS_OPTION_UFACTOR] = static_cast<idx_t>(std::max(1.0, std::round(options.imbalance * 1000)));
  idx_t num_nodes = static_cast<idx_t>(graph.num_nodes), constraints = graph.num_constraints;
  idx_t num_parts = options.num_parts, cut = 0;
  std::vector<idx_t> part_of(xadj.size() - 1);
  const int status = METIS_PartGraphKway(
      &num_nodes, &constraints, xadj.data(), ids.data(), nodes.empty() ? nullptr : nodes.data(), nullptr,
      edges.empty() ? nullptr : edges.data(), &num_parts, nullptr, nullptr, settings, &cut, part_of.data());
  if (status == METIS_ERROR_MEMORY)
    throw OutOfMemory(fmt::format("METIS found no memory for {} nodes and {} entries; {} are free",
                                  graph.num_nodes, graph.num_entries(), format_bytes(available_host_bytes())),
                      "Use a host with more memory, or --method random or range.");
  if (status != METIS_OK) throw Error(fmt::format("METIS_PartGraphKway failed with status {}", status));
  return {part_of.begin(), part_of.end()};
}

}  // namespace strata::partition
