// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "run_context.hpp"
#include "strata/store/cache_decision.hpp"
#include "strata/store/load_options.hpp"

namespace strata::train {

/// What a run keeps of other machines' nodes.
struct RunCaches {
  /// The planner's reasons; empty on one machine, and where --halo-cache gave a size, which is kept to.
  std::vector<store::CacheDecision> decisions = {};
  std::int64_t bytes = 0;  ///< as store::LoadOptions::halo_bytes
  bool lists = true;       ///< as store::LoadOptions::halo_lists
};

/// The options that let the store keep what was decided. Lists are kept only beside rows.
RunCaches caches_for(const std::vector<store::CacheDecision>& decisions, std::int64_t row_bytes);

/// Decides before the graph is loaded: rank 0 samples a few batches from the part files, and all ranks
/// measure the link between machines, look-ups, and how fast rows are read. The same on all ranks. Takes a
/// second or two. Collective.
RunCaches plan_caches(const RunContext& context);

}  // namespace strata::train
