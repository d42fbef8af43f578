// SPDX-License-Identifier: Apache-2.0
#include "multilevel/multilevel_assign.hpp"

#include <fmt/format.h>

#include <memory>

#include "assign/balance.hpp"
#include "assign/neighbor_lists.hpp"
#include "multilevel/multilevel.hpp"
#include "multilevel/regroup.hpp"
#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata::partition {
namespace {

void check_size(Count num_nodes, const Count* begin) {
  if (begin[num_nodes] <= LevelGraph::kMostEntries) return;
  throw InputError(fmt::format("{} neighbor entries: at most {} can be added up",
                               format_count(begin[num_nodes]), format_count(LevelGraph::kMostEntries)),
                   "Use --method random or range.");
}

/// The finest level, whose nodes weigh one each. Borrows the lists.
LevelGraph level_of(const CompactGraph& graph, const NeighborLists& lists) {
  LevelGraph level;
  level.num_nodes = graph.num_nodes;
  level.begin = lists.begin;
  level.ids = lists.ids;
  level.scratch = graph.scratch;
  return level;
}

std::unique_ptr<Accelerator> accelerator_for(const AssignOptions& options) {
  return options.device == CutDevice::cuda ? cuda_accelerator() : nullptr;
}

std::vector<std::int32_t> parts_of(const LevelGraph& graph, const std::vector<Count>& limits,
                                   const AssignOptions& options, ThreadPool& pool) {
  const std::unique_ptr<Accelerator> accelerator = accelerator_for(options);
  const MultilevelOptions how{.num_parts = options.num_parts,
                              .imbalance = options.imbalance,
                              .limits = limits,
                              .strong = options.quality == CutQuality::strong,
                              .try_metis = options.method != PartitionMethod::multilevel,
                              .seed = options.seed,
                              .accelerator = accelerator.get(),
                              .stop = options.stop};
  if (options.method == PartitionMethod::merge)
    return merge_parts(graph, options.given->of_node, options.given->count, how, pool);
  if (options.method == PartitionMethod::split)
    return split_parts(graph, options.given->of_node, options.given->count, how, pool);
  return multilevel_parts(graph, how, pool);
}

}  // namespace

void check_device(const AssignOptions& options) { accelerator_for(options); }

std::vector<std::int32_t> multilevel_assign(const CompactGraph& graph, const std::vector<NodeId>& train,
                                            const AssignOptions& options, ThreadPool& pool) {
  if (options.num_parts == 1) return std::vector<std::int32_t>(at(graph.num_nodes), 0);
  Weights weights = usable_weights(graph, train, options);
  if (weights.empty()) weights.push_back(weights_of(Constraint::nodes, graph, train));
  const bool only_nodes = options.balance == std::vector{Constraint::nodes};
  const NeighborLists lists = neighbor_lists(graph, check_size, pool);
  LevelGraph level = level_of(graph, lists);
  level.num_constraints = static_cast<int>(weights.size());
  if (!only_nodes) level.node_weights = interleave<Count>(weights, graph.num_nodes);
  const std::vector<Count> limits = limits_of(weights, options);
  weights.clear();
  std::vector<std::int32_t> part_of = parts_of(level, limits, options, pool);
  fill_empty_parts(
      options.num_parts, [&](Count v) { return level.degree(v); }, part_of);
  return part_of;
}

std::vector<std::int32_t> multilevel_clusters(const CompactGraph& graph,
                                              const std::vector<std::int32_t>& part_of,
                                              const AssignOptions& options, ThreadPool& pool) {
  const NeighborLists lists = neighbor_lists(graph, check_size, pool);
  const std::unique_ptr<Accelerator> accelerator = accelerator_for(options);
  return clusters_of_parts(level_of(graph, lists), part_of, options.num_parts,
                           {.num_parts = options.clusters,
                            .imbalance = options.imbalance,
                            .limits = {},
                            .strong = options.quality == CutQuality::strong,
                            .try_metis = options.method != PartitionMethod::multilevel,
                            .seed = options.seed,
                            .accelerator = accelerator.get(),
                            .stop = options.stop},
                           pool);
}

}  // namespace strata::partition
