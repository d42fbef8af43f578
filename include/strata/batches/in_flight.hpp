// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/util/types.hpp"

namespace strata::batches {

/// How many batches are sampled, and gathered, at the same time beside the one that is trained.
struct InFlight {
  int sampled = 1, gathered = 1;

  int batches() const { return sampled + gathered + 1; }
  bool operator==(const InFlight&) const = default;
};

/// Seconds of a round trip between GPUs. A batch has too few shorter ones to be worth more than three in
/// flight.
inline constexpr double kSlowRound = 40e-6;

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

/// The times of GPUs whose stages exchange one after the other, so that a step of `step` seconds waits for
/// the round trips of both. Training takes what is left of the step, an eighth of it at least, and either
/// stage takes half of that beside its round trips.
///
/// A step of 2 ms, 1 of them round trips for a sample and 0.5 for rows: training takes 0.5 ms, sampling 1.25
/// and gathering 0.75.
StageTimes stages_in_a_chain(double step, double sample_latency, double gather_latency);

/// The times of GPUs whose hosts take part in the exchange of ids, of rows or of both. Three quarters of a
/// step count as their waiting, for GPUs and for each other, two parts of it for ids and one for rows.
///
/// Hosts that look at ids in a step of 4 ms: 3 of them wait, so training takes 1 ms and sampling 3.5, and 4
/// batches are sampled at a time.
StageTimes stages_with_hosts(double step, bool for_ids, bool for_rows);

/// A number that was asked for, divided in proportion to two sampled per gathered batch. 5 gives 3 and 1.
InFlight in_flight_of(int batches);

}  // namespace strata::batches
