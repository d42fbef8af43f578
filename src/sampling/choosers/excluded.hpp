// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "strata/util/random.hpp"
#include "strata/util/types.hpp"

namespace strata::sampling {

/// The number of `count` ascending entries that are below `bound`; without branches, which would be guesses.
STRATA_HOST_DEVICE inline Count first_entry(const Count* entries, Count count, Count bound) {
  if (count == 0) return 0;
  Count first = 0;
  while (count > 1) {
    const Count half = count / 2;
    first += entries[first + half - 1] < bound ? half : 0;
    count -= half;
  }
  return first + (entries[first] < bound ? 1 : 0);
}

/// The entries of one list that must not be chosen; a view. Choices are numbered without them.
///
///     a list of 6 that begins at entry 10, of which 11 and 14 are excluded:
///     choices 0 1 2 3 are its places 0 2 3 5
struct ExcludedOfList {
  const Count* entries = nullptr;  ///< [count] ascending positions among the entries of all lists
  std::int32_t count = 0;
  Count begin = 0;  ///< where the list begins among them

  STRATA_HOST_DEVICE Count place_of(Count choice) const {
    std::int32_t low = 0, high = count;  // entries[i] - begin - i choices come before excluded entry i
    while (low < high) {
      const std::int32_t middle = low + (high - low) / 2;
      if (entries[middle] - begin - middle <= choice)
        low = middle + 1;
      else
        high = middle;
    }
    return choice + low;
  }
  /// The number of the choice at a place that is not excluded.
  STRATA_HOST_DEVICE Count choice_at(Count place) const {
    return count == 0 ? place : place - first_entry(entries, count, begin + place);
  }
  STRATA_HOST_DEVICE bool holds(Count place) const {
    if (count == 0) return false;
    const Count found = first_entry(entries, count, begin + place);
    return found < count && entries[found] == begin + place;
  }
};

}  // namespace strata::sampling
