// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/util/types.hpp"

namespace strata::train {

/// How many batches are sampled, and gathered, at the same time beside the one that is trained.
struct InFlight {
  int sampled = 1, gathered = 1;

  int batches() const { return sampled + gathered + 1; }
  bool operator==(const InFlight&) const = default;
};

/// Seconds of a batch in each stage, and of these the round trips between machines.
struct StageTimes {
  double sample = 0, gather = 0, train = 0;
  double sample_latency = 0, gather_latency = 0;
};

/// So many that waiting for round trips does not slow down a step: a stage that takes S, of which L are round
/// trips, works on ceil(S / busy) batches, where `busy` is the longest time of a stage without its round
/// trips. The sum with the one that is trained is at most `most`, and 3 at least.
///
/// Sampling 5 ms, 4 of them round trips, gathering 2.5 ms, 2 of them round trips, training 2 ms: busy is 2
/// ms, so 3 batches are sampled and 2 gathered at a time, 6 in flight. Without round trips 1 and 1 suffice
/// whatever the times.
InFlight in_flight_for(const StageTimes& times, int most);

/// A number that was asked for, divided in proportion to two sampled per gathered batch. 5 gives 3 and 1.
InFlight in_flight_of(int batches);

}  // namespace strata::train
