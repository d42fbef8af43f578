// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "multilevel/multilevel.hpp"

namespace strata::partition {

/// Joins parts to options.num_parts new ones, whole parts only: those that share most edges, as far as the
/// limits allow. `given` has `num_given` parts, a multiple of options.num_parts. No new part is empty: throws
/// InputError if fewer given ones hold nodes.
std::vector<std::int32_t> merge_parts(const LevelGraph& graph, const std::vector<std::int32_t>& given,
                                      int num_given, const MultilevelOptions& options, ThreadPool& pool);

/// Cuts every part into options.num_parts / num_given new ones: part p becomes those from p times that number
/// on. A part that is too heavy for options.limits is cut into pieces that weigh as much as each other.
/// Pieces of a part with fewer nodes are empty.
std::vector<std::int32_t> split_parts(const LevelGraph& graph, const std::vector<std::int32_t>& given,
                                      int num_given, const MultilevelOptions& options, ThreadPool& pool);

/// Cuts every part into options.num_parts clusters of about as many nodes, numbered by nearness, and returns
/// the number of each node's cluster within its part. options.limits are not used. A part with few nodes may
/// have fewer clusters.
std::vector<std::int32_t> clusters_of_parts(const LevelGraph& graph, const std::vector<std::int32_t>& given,
                                            int num_given, const MultilevelOptions& options,
                                            ThreadPool& pool);

}  // namespace strata::partition
