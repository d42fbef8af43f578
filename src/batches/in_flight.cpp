// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "strata/batches/pipeline.hpp"

namespace strata::batches {
namespace {

/// One more is taken only if it saves a tenth of the work of a step.
int batches_at_once(double stage, double busy) {
  constexpr double kWorthwhile = 0.1;
  if (busy <= 0) return 1;
  return std::max(1, static_cast<int>(std::ceil(stage / busy - kWorthwhile)));
}

}  // namespace

InFlight in_flight_for(const StageTimes& times, int most) {
  const double sample = std::max(0.0, times.sample - times.sample_latency),
               gather = std::max(0.0, times.gather - times.gather_latency);
  const double busy = std::max({times.train, sample, gather});
  InFlight chosen{.sampled = std::min(most, batches_at_once(times.sample, busy)),
                  .gathered = std::min(most, batches_at_once(times.gather, busy))};
  while (chosen.batches() > std::max(most, InFlight{}.batches()))
    --(chosen.sampled >= chosen.gathered ? chosen.sampled : chosen.gathered);
  return chosen;
}

StageTimes stages_in_a_chain(double step, double sample_latency, double gather_latency) {
  constexpr double kLeastWork = 1.0 / 8;
  const double work = std::max(step - sample_latency - gather_latency, kLeastWork * step);
  return {.sample = sample_latency + work / 2,
          .gather = gather_latency + work / 2,
          .train = work,
          .sample_latency = sample_latency,
          .gather_latency = gather_latency};
}

StageTimes stages_with_hosts(double step, bool for_ids, bool for_rows) {
  const double waiting = step * 3 / 4;
  if (for_ids && for_rows) return stages_in_a_chain(step, waiting * 2 / 3, waiting / 3);
  return stages_in_a_chain(step, for_ids ? waiting : 0, for_rows ? waiting : 0);
}

InFlight in_flight_of(int batches) {
  const int gathered = std::max(1, (batches - 1) / 3);
  return {.sampled = std::max(1, batches - 1 - gathered), .gathered = gathered};
}

}  // namespace strata::batches
