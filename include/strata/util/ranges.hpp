// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

#include "strata/util/types.hpp"

namespace strata {

struct Range {
  Count first = 0, count = 0;
  constexpr Count end() const { return first + count; }
};

/// The share of `whole` that falls to `rank` of `size` ranks: shares are contiguous, ascend in rank, and
/// differ in size by at most one.
///
///     share_of({10, 5}, 0..1, 2)  gives  {10, 2} and {12, 3}
inline Range share_of(Range whole, int rank, int size) {
  const Count begin = whole.count / size * rank + whole.count % size * rank / size;
  const Count end = whole.count / size * (rank + 1) + whole.count % size * (rank + 1) / size;
  return {whole.first + begin, end - begin};
}

/// Finds which of some consecutive ranges a value lies in. It remembers the last one, for values in sorted
/// runs.
///
///     offsets {0, 4, 4, 9}: 3 lies in range 0, 4 in range 2
class RangeFinder {
 public:
  explicit RangeFinder(std::span<const std::int64_t> offsets) : offsets_(offsets) {}

  /// REQUIRES: offsets.front() <= value < offsets.back().
  int operator()(std::int64_t value) {
    if (value < begin_ || value >= end_) {
      const auto after = std::upper_bound(offsets_.begin() + 1, offsets_.end() - 1, value);
      range_ = static_cast<int>(after - offsets_.begin()) - 1;
      begin_ = *(after - 1);
      end_ = *after;
    }
    return range_;
  }

 private:
  std::span<const std::int64_t> offsets_;
  std::int64_t begin_ = 0, end_ = 0;
  int range_ = 0;
};

}  // namespace strata
