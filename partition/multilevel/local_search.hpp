// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "multilevel/loads.hpp"

namespace strata::partition {

struct LocalSearchOptions {
  int most_rounds = 5;        ///< each takes every node of the border once
  double least_gain = 0.001;  ///< share of the cut that a round must save for another one to follow
  std::uint64_t seed = 0;
};

/// Whether the table of the local search, one number per node and part, is small enough.
bool local_search_pays(const LevelGraph& graph, int num_parts);

/// Lowers the cut by localized k-way searches (Fiduccia and Mattheyses, with the restarts of Sanders and
/// Schulz 2011): from some nodes of the border, each step makes the best move near it, at a loss if there is
/// no other, and the end goes back to the best point. Keeps parts within their limits. Runs on one thread.
/// Returns the decrease of the cut.
Count search_locally(const LevelGraph& graph, Loads& loads, std::vector<std::int32_t>& part_of,
                     const LocalSearchOptions& options);

}  // namespace strata::partition
