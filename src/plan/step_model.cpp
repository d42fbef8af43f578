// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "strata/plan/forecast.hpp"

namespace strata::plan {
namespace {

double per_byte(const Link& link) { return link.bytes_per_second > 0 ? 1 / link.bytes_per_second : 0; }

double moves(const WireLoad& load, const Link& link) {
  return load.bytes * per_byte(link) + std::max(0.0, load.messages - load.rounds) * link.message_seconds;
}

double time_of(const WireLoad& load, const Link& link) {
  return load.rounds * link.latency_seconds + moves(load, link);
}

struct Sum {
  double bytes_seconds = 0, latency_seconds = 0;
};

/// A ring that passes all bytes twice, pipelined over a tree's depth of latencies.
Sum sum_of_gradients(const StepInputs& inputs) {
  if (inputs.ranks <= 1 || inputs.machines <= 1) return {};
  const double ranks = inputs.ranks;
  return {.bytes_seconds = 2 * (ranks - 1) / ranks * inputs.gradient_bytes * per_byte(inputs.link),
          .latency_seconds = 2 * std::ceil(std::log2(ranks)) * inputs.link.latency_seconds};
}

/// Whether the rounds of a stage take longer than everything else in it.
bool is_latency(double rounds, const Link& link, double stage_seconds) {
  return 2 * rounds * link.latency_seconds > stage_seconds;
}

}  // namespace

std::string_view name_of(Limit limit) {
  switch (limit) {
    case Limit::compute:
      return "compute";
    case Limit::sampling:
      return "sampling";
    case Limit::gathering:
      return "gathering";
    case Limit::bandwidth:
      return "bandwidth";
    case Limit::latency:
      return "latency";
  }
  return "";
}

StepEstimate estimate_step(const StepInputs& inputs) {
  const Link& link = inputs.link;
  double sample = inputs.sample_seconds, moved = moves(inputs.rows, link), sample_rounds = 0;
  for (const WireLoad& hop : inputs.hops) {
    sample += time_of(hop, link);
    moved += moves(hop, link);
    sample_rounds += hop.rounds;
  }
  const double gather = inputs.gather_seconds + time_of(inputs.rows, link);
  const Sum sum = sum_of_gradients(inputs);
  StepEstimate estimate;
  estimate.sum = sum.bytes_seconds + sum.latency_seconds;
  estimate.train = inputs.compute_seconds + inputs.staging_seconds +
                   inputs.loading_share * (inputs.sample_seconds + inputs.gather_seconds) +
                   inputs.wire_share * moved + estimate.sum;
  estimate.sample = sample / std::max(1, inputs.sampled_at_once);
  estimate.gather = gather / std::max(1, inputs.gathered_at_once);
  estimate.wire = moved + sum.bytes_seconds;
  const double all = sample + gather + estimate.train;
  estimate.in_flight = all / std::max(1, inputs.batches_in_flight);
  if (inputs.batches_in_flight <= 1) {
    // Nothing is hidden: training does not share its cores while nothing else works.
    estimate.train = inputs.compute_seconds + inputs.staging_seconds + estimate.sum;
    estimate.in_flight = sample + gather + estimate.train;
  }
  const double rounds = sample_rounds + inputs.rows.rounds;
  const auto or_latency = [&](Limit limit, double limiting_rounds, double seconds) {
    return is_latency(limiting_rounds, link, seconds) ? Limit::latency : limit;
  };
  estimate.step = estimate.train;
  estimate.limit = sum.latency_seconds > 0.5 * estimate.train                             ? Limit::latency
                   : inputs.wire_share * moved + sum.bytes_seconds > 0.5 * estimate.train ? Limit::bandwidth
                                                                                          : Limit::compute;
  const auto consider = [&](double seconds, Limit limit) {
    if (seconds <= estimate.step) return;
    estimate.step = seconds;
    estimate.limit = limit;
  };
  consider(estimate.sample, or_latency(Limit::sampling, sample_rounds, sample));
  consider(estimate.gather,
           or_latency(moves(inputs.rows, link) > 0.5 * gather ? Limit::bandwidth : Limit::gathering,
                      inputs.rows.rounds, gather));
  consider(estimate.wire, Limit::bandwidth);
  consider(estimate.in_flight, or_latency(Limit::compute, rounds, all));
  return estimate;
}

StepInputs without_wire(const StepInputs& inputs) {
  StepInputs alone = inputs;
  alone.hops.clear();
  alone.rows = {};
  alone.machines = 1;
  alone.staging_seconds = 0;
  return alone;
}

}  // namespace strata::plan
