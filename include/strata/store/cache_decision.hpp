// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "strata/util/types.hpp"

namespace strata::store {

/// What the planner decided to keep of other machines' nodes, and why. Seconds and rows are those of a batch
/// of one rank, expected, on average over all machines; the same on all ranks.
///
/// Of 1,000 rows that take 0.5 us each, a cache with a look-up of 0.05 us that answers 600 takes 200 + 50
/// instead of 500 us; one that answers 80 takes 460 + 50 and does not pay.
struct CacheDecision {
  std::string what;  ///< "feature rows" or "neighbor lists"
  struct Reads {
    double rows = 0;          ///< of other machines, in a batch
    double ask_seconds = 0;   ///< to get one that is not kept: its bytes and those of the request on the link
    double find_seconds = 0;  ///< to look for one among those that are kept, whether it is there or not
  };
  struct Cache {
    Count kept = 0;
    double answered = 0;  ///< of Reads::rows
  };
  Reads reads;
  Cache largest;  ///< what there is memory for beside the other kind
  Cache chosen;   ///< keeps nothing where that does not pay
  double seconds = 0, seconds_without = 0;
};

/// One sentence for people.
std::string sentence(const CacheDecision& decision);

}  // namespace strata::store
