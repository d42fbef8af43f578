// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <span>

#include "strata/util/types.hpp"

/// Decides how much a machine keeps of what other machines own. Pure functions.
namespace strata::placement {

/// What a batch of one rank reads of other machines' nodes: feature rows, or neighbor lists. Seconds are per
/// row.
struct RemoteReads {
  double rows = 0;          ///< read in a batch
  double ask_seconds = 0;   ///< to get one that is not kept: its bytes and those of the request on the link
  double find_seconds = 0;  ///< to look for one among those that are kept, whether it is there or not
};

/// One size of the cache.
struct CacheOption {
  Count kept = 0;           ///< rows
  double answered = 0;      ///< of RemoteReads::rows
  double read_seconds = 0;  ///< that a batch reads in this machine's memory then
};

/// Seconds of a batch with a cache:
///
///     read_seconds + (rows - answered) ask_seconds + rows find_seconds
///
/// the last term only if something is kept. Of 1,000 rows that take 0.5 us each, a cache with a look-up of
/// 0.05 us that answers 600 takes 200 + 50 instead of 500 us; one that answers 80 takes 460 + 50 and does not
/// pay.
double cache_seconds(const RemoteReads& reads, const CacheOption& option);

/// What is kept, and what is expected of it.
struct CacheChoice {
  std::size_t option = 0;
  double seconds = 0;  ///< cache_seconds() of the choice
  double seconds_without = 0;
};

/// The option that takes least, the smallest of several. REQUIRES: the first one keeps nothing. Another must
/// save at least a fiftieth of the time without, for it takes memory, and rates are measured.
CacheChoice choose_cache(const RemoteReads& reads, std::span<const CacheOption> options);

}  // namespace strata::placement
