// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "strata/plan/halo_plan.hpp"
#include "strata/util/types.hpp"

namespace strata::plan {

/// How many bytes there are of what saves how much per byte, with 16 levels per octave. Sums of integers, so
/// that they do not depend on who adds what when.
class DensityLevels {
 public:
  static constexpr int kLevels = 1 << 12;
  /// The exponent of the density and four bits of its fraction.
  static int of(double saved_per_byte) {
    return static_cast<int>(std::bit_cast<std::uint32_t>(static_cast<float>(saved_per_byte)) >> kDroppedBits);
  }
  /// The middle of a level; the lowest one has what saves nothing.
  static double middle(int level) {
    if (level == 0) return 0;
    return std::bit_cast<float>(static_cast<std::uint32_t>(level) << kDroppedBits | 1U << (kDroppedBits - 1));
  }

  void add(int level, std::int64_t bytes) {
    ++sums_[at(2 * level)];
    sums_[at(2 * level + 1)] += bytes;
  }
  std::span<std::int64_t> sums() { return sums_; }  ///< see RankShare

  Count total_count() const;
  /// One per level that has anything.
  std::vector<KeepGroup> groups() const;

  /// The best that take `bytes`: all of `level` and higher ones, and of the next lower one `rest` bytes.
  struct Cut {
    int level = kLevels;
    std::int64_t rest = 0;
  };
  Cut cut(std::int64_t bytes) const;

 private:
  static constexpr int kDroppedBits = 19;
  Count count_of(int level) const { return sums_[at(2 * level)]; }
  std::int64_t bytes_of(int level) const { return sums_[at(2 * level + 1)]; }

  std::vector<std::int64_t> sums_ = std::vector<std::int64_t>(2 * kLevels);  // counts and bytes by level
};

}  // namespace strata::plan
