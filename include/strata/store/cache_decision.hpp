// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "strata/placement/cache_choice.hpp"
#include "strata/util/types.hpp"

namespace strata::store {

/// What the planner decided to keep of other machines' nodes, and why. Seconds and rows are those of a batch
/// of one rank, expected, on average over all machines; the same on all ranks.
struct CacheDecision {
  std::string what;                ///< "feature rows" or "neighbor lists"
  placement::RemoteReads reads;    ///< without a cache
  placement::CacheOption largest;  ///< the cache that there is memory for
  std::size_t option = 0;          ///< that was chosen; 0: none
  placement::CacheOption chosen;
  double seconds = 0, seconds_without = 0;
};

/// REQUIRES: as placement::choose_cache().
CacheDecision decide(const std::string& what, const placement::RemoteReads& reads,
                     std::span<const placement::CacheOption> options);

/// One sentence for people.
std::string sentence(const CacheDecision& decision);

}  // namespace strata::store
