// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "multilevel/level_graph.hpp"

namespace strata::partition {

struct InitialOptions {
  int num_parts = 1;
  double imbalance = 0.03;
  std::uint64_t seed = 0;
};

/// A partition of a small graph by METIS k-way. Weights that METIS's integers cannot hold are scaled down for
/// it. Parts may exceed their limits. Throws InputError where the graph itself is too large for METIS, and
/// OutOfMemory.
std::vector<std::int32_t> initial_parts(const LevelGraph& graph, const InitialOptions& options);

}  // namespace strata::partition
