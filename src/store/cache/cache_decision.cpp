// SPDX-License-Identifier: Apache-2.0
#include "strata/store/cache_decision.hpp"

#include <fmt/format.h>

#include "strata/util/format.hpp"

namespace strata::store {
namespace {

/// Of what is done millions of times per second.
std::string short_time(double seconds) {
  return seconds < 1e-6 ? fmt::format("{:.3g} ns", 1e9 * seconds) : fmt::format("{:.3g} us", 1e6 * seconds);
}

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

}  // namespace

std::string sentence(const CacheDecision& d) {
  const std::string asks = fmt::format("asking for one takes {} and looking for it {}",
                                       short_time(d.reads.ask_seconds), short_time(d.reads.find_seconds));
  if (d.chosen.kept == 0) {
    return fmt::format(
        "no cache of other machines' {}: one of {} would answer {:.0f} % of what batches ask for, which does "
        "not pay where {}",
        d.what, format_count(d.largest.kept), percent(d.largest.answered, d.reads.rows), asks);
  }
  return fmt::format(
      "a cache of {} of other machines' {} answers {:.0f} % of what batches ask for: {}, so that reads of a "
      "batch should take {} instead of {}",
      format_count(d.chosen.kept), d.what, percent(d.chosen.answered, d.reads.rows), asks,
      format_seconds(d.seconds), format_seconds(d.seconds_without));
}

}  // namespace strata::store
