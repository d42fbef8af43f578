// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "strata/plan/forecast.hpp"

namespace strata::plan {
namespace {

constexpr double kUs = 1e-6, kClose = 1e-12;

/// The example of estimate_step().
StepInputs example() {
  return {.sample_seconds = 100 * kUs,
          .gather_seconds = 50 * kUs,
          .compute_seconds = 600 * kUs,
          .hops = {{.bytes = 1e6, .messages = 2, .rounds = 2}, {.bytes = 1e6, .messages = 2, .rounds = 2}},
          .rows = {.bytes = 20e6, .messages = 2, .rounds = 2},
          .gradient_bytes = 1e6,
          .ranks = 2,
          .machines = 2,
          .batches_in_flight = 3,
          .wire_share = 0.5,
          .link = {.bytes_per_second = 1e10, .latency_seconds = 10 * kUs}};
}

TEST(StepModel, GivesTheFiguresOfItsExample) {
  const StepEstimate e = estimate_step(example());
  EXPECT_NEAR(e.sample, 340 * kUs, kClose);
  EXPECT_NEAR(e.gather, 2070 * kUs, kClose);
  EXPECT_NEAR(e.sum, 120 * kUs, kClose);
  EXPECT_NEAR(e.train, 1820 * kUs, kClose);
  EXPECT_NEAR(e.wire, 2300 * kUs, kClose);
  EXPECT_NEAR(e.in_flight, 1410 * kUs, kClose);
  EXPECT_NEAR(e.step, 2300 * kUs, kClose);
  EXPECT_EQ(e.limit, Limit::bandwidth);
}

TEST(StepModel, CountsOnlyComputingOnOneMachine) {
  const StepEstimate alone = estimate_step(without_wire(example()));
  EXPECT_NEAR(alone.step, 600 * kUs, kClose);
  EXPECT_EQ(alone.sum, 0);
  EXPECT_EQ(alone.wire, 0);
  EXPECT_EQ(alone.limit, Limit::compute);
}

TEST(StepModel, LetsTrainingPayForRowsThatAreNotReadInPlace) {
  StepInputs inputs = example();
  inputs.staging_seconds = 90 * kUs;
  EXPECT_NEAR(estimate_step(inputs).train, 1910 * kUs, kClose);
  EXPECT_NEAR(estimate_step(without_wire(inputs)).train, 600 * kUs, kClose);
}

TEST(StepModel, AddsUpAllStagesWithoutOverlap) {
  StepInputs inputs = example();
  inputs.batches_in_flight = 1;
  EXPECT_NEAR(estimate_step(inputs).step, (340 + 2070 + 600 + 120) * kUs, kClose);
}

TEST(StepModel, LetsTrainingPayForWhatSharesItsCores) {
  StepInputs inputs = without_wire(example());
  inputs.loading_share = 1;
  EXPECT_NEAR(estimate_step(inputs).step, 750 * kUs, kClose);
}

TEST(StepModel, SeesLatencyWhereRoundsTakeLongerThanTheRest) {
  StepInputs inputs = example();
  inputs.link.latency_seconds = 1e-3;
  const StepEstimate slow = estimate_step(inputs);
  EXPECT_EQ(slow.limit, Limit::latency);
  EXPECT_NEAR(slow.sample, (100 + 4 * 1000 + 200) * kUs, kClose);
  inputs.sampled_at_once = inputs.gathered_at_once = 4;
  inputs.batches_in_flight = 9;
  const StepEstimate ahead = estimate_step(inputs);
  EXPECT_NEAR(ahead.sample, slow.sample / 4, kClose);
  EXPECT_LT(ahead.step, slow.step);
}

TEST(StepModel, ChargesMessagesBeyondOnePerRound) {
  StepInputs inputs = example();
  inputs.link.message_seconds = 2 * kUs;
  inputs.rows.messages = 2 + 100;
  EXPECT_NEAR(estimate_step(inputs).gather, (2070 + 200) * kUs, kClose);
  inputs.rows.messages = 1;  // fewer messages than rounds, where some were empty, cost nothing less than none
  EXPECT_NEAR(estimate_step(inputs).gather, 2070 * kUs, kClose);
}

TEST(StepModel, NeedsNoLinkOnOneMachine) {
  StepInputs inputs = without_wire(example());
  inputs.link = {};
  EXPECT_NEAR(estimate_step(inputs).step, 600 * kUs, kClose);
}

}  // namespace
}  // namespace strata::plan
