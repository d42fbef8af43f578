// SPDX-License-Identifier: Apache-2.0
#include "strata/placement/cache_choice.hpp"

namespace strata::placement {

double cache_seconds(const RemoteReads& reads, const CacheOption& option) {
  const double finding = option.kept > 0 ? reads.rows * reads.find_seconds : 0;
  return option.read_seconds + (reads.rows - option.answered) * reads.ask_seconds + finding;
}

CacheChoice choose_cache(const RemoteReads& reads, std::span<const CacheOption> options) {
  constexpr double kWorthwhile = 0.98;
  const double without = cache_seconds(reads, options.front());
  CacheChoice choice{.option = 0, .seconds = without, .seconds_without = without};
  for (std::size_t i = 1; i < options.size(); ++i) {
    const double seconds = cache_seconds(reads, options[i]);
    if (seconds >= choice.seconds || seconds > kWorthwhile * without) continue;
    choice.option = i;
    choice.seconds = seconds;
  }
  return choice;
}

}  // namespace strata::placement
