// SPDX-License-Identifier: Apache-2.0
#include "cache/density_levels.hpp"

namespace strata::store {
namespace {

/// The middle of a level.
double seconds_per_byte(int level, int dropped_bits) {
  if (level == 0) return 0;
  const auto bits = static_cast<std::uint32_t>(level) << dropped_bits;
  return std::bit_cast<float>(bits | 1U << (dropped_bits - 1));
}

}  // namespace

void DensityLevels::sum(const comm::Machine& machine) {
  std::vector<std::int64_t> sums;
  for (const Level& level : levels_) sums.insert(sums.end(), {level.count, level.bytes});
  machine.communicator().all_reduce(std::span(sums));
  for (std::size_t i = 0; i < levels_.size(); ++i) levels_[i] = {sums[2 * i], sums[2 * i + 1]};
}

Count DensityLevels::total_count() const {
  Count sum = 0;
  for (const Level& level : levels_) sum += level.count;
  return sum;
}

std::vector<placement::KeepGroup> DensityLevels::groups(placement::Keepable kind) const {
  std::vector<placement::KeepGroup> groups;
  for (int level = kLevels - 1; level >= 0; --level) {
    const Level& l = levels_[static_cast<std::size_t>(level)];
    if (l.count == 0) continue;
    groups.push_back({.kind = kind,
                      .count = l.count,
                      .bytes = l.bytes,
                      .saved_seconds = seconds_per_byte(level, kDroppedBits) * static_cast<double>(l.bytes)});
  }
  return groups;
}

DensityLevels::Cut DensityLevels::cut(std::int64_t bytes) const {
  Cut cut;
  for (int level = kLevels - 1; level >= 0; --level) {
    const std::int64_t of_level = levels_[static_cast<std::size_t>(level)].bytes;
    if (of_level > bytes) {
      cut.rest = bytes;
      return cut;
    }
    cut.level = level;
    bytes -= of_level;
  }
  return cut;
}

}  // namespace strata::store
