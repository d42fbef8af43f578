// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>

#include "run_context.hpp"
#include "strata/store/load_options.hpp"

namespace strata::train {

/// What a run may keep of other machines' nodes.
struct RunCaches {
  std::int64_t bytes = 0;  ///< as store::LoadOptions::halo_bytes
  /// Set where a run keeps only what pays: with --halo-cache auto on several machines. A size is kept to.
  std::optional<plan::ExchangeCosts> costs = {};
};

/// Before the graph is loaded, all ranks measure the link between machines, look-ups, and how fast rows are
/// read, where --halo-cache leaves the size to the planner. The same on all ranks. Takes a second or two.
/// Collective.
RunCaches plan_caches(const RunContext& context);

}  // namespace strata::train
