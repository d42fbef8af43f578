// SPDX-License-Identifier: Apache-2.0
#include "strata/plan/heat.hpp"

namespace strata::plan {

Count DensityLevels::total_count() const {
  Count sum = 0;
  for (int level = 0; level < kLevels; ++level) sum += count_of(level);
  return sum;
}

std::vector<KeepGroup> DensityLevels::groups() const {
  std::vector<KeepGroup> groups;
  for (int level = kLevels - 1; level >= 0; --level) {
    if (count_of(level) == 0) continue;
    groups.push_back({.count = count_of(level),
                      .bytes = bytes_of(level),
                      .saved = middle(level) * static_cast<double>(bytes_of(level))});
  }
  return groups;
}

DensityLevels::Cut DensityLevels::cut(std::int64_t bytes) const {
  Cut cut;
  for (int level = kLevels - 1; level >= 0; --level) {
    const std::int64_t of_level = bytes_of(level);
    if (of_level > bytes) {
      cut.rest = bytes;
      return cut;
    }
    cut.level = level;
    bytes -= of_level;
  }
  return cut;
}

}  // namespace strata::plan
