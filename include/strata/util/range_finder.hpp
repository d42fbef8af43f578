// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

namespace strata {

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
