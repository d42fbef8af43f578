// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "strata/comm/machine.hpp"
#include "strata/placement/keep_plan.hpp"
#include "strata/util/types.hpp"

namespace strata::store {

/// How many bytes there are of what saves how much per byte, with 16 levels per octave. Sums of integers, so
/// that they do not depend on who adds what when.
class DensityLevels {
 public:
  static constexpr int kLevels = 1 << 12;
  /// The exponent of the density and four bits of its fraction.
  static int of(double seconds_per_byte) {
    return static_cast<int>(std::bit_cast<std::uint32_t>(static_cast<float>(seconds_per_byte)) >>
                            kDroppedBits);
  }

  void add(int level, std::int64_t bytes) {
    Level& l = levels_[static_cast<std::size_t>(level)];
    ++l.count;
    l.bytes += bytes;
  }
  void sum(const comm::Machine& machine);  ///< over its ranks; collective over the machine

  Count total_count() const;
  /// One per level that has anything.
  std::vector<placement::KeepGroup> groups(placement::Keepable kind) const;

  /// The best that take `bytes`: all of `level` and higher ones, and of the next lower one `rest` bytes.
  struct Cut {
    int level = kLevels;
    std::int64_t rest = 0;
  };
  Cut cut(std::int64_t bytes) const;

 private:
  static constexpr int kDroppedBits = 19;
  struct Level {
    std::int64_t count = 0, bytes = 0;
  };
  std::vector<Level> levels_ = std::vector<Level>(kLevels);
};

}  // namespace strata::store
