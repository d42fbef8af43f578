// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "strata/batches/pipeline.hpp"

namespace strata::batches {
namespace {

TEST(InFlight, GivesTheFiguresOfItsExample) {
  const InFlight chosen =
      in_flight_for({.sample = 5, .gather = 2.5, .train = 2, .sample_latency = 4, .gather_latency = 2}, 8);
  EXPECT_EQ(chosen, (InFlight{.sampled = 3, .gathered = 2}));
  EXPECT_EQ(chosen.batches(), 6);
}

TEST(InFlight, IsThreeWithoutRoundTrips) {
  EXPECT_EQ(in_flight_for({.sample = 9, .gather = 3, .train = 1}, 8), InFlight{});
  EXPECT_EQ(in_flight_for({}, 8), InFlight{});
  EXPECT_EQ(in_flight_for({.sample = 1.05, .gather = 0.1, .train = 1, .sample_latency = 0.2}, 8), InFlight{})
      << "a twentieth is not worth a further batch";
}

TEST(InFlight, KeepsToTheMost) {
  const StageTimes slow{
      .sample = 50, .gather = 30, .train = 1, .sample_latency = 49.5, .gather_latency = 29.5};
  EXPECT_EQ(in_flight_for(slow, 8).batches(), 8);
  EXPECT_EQ(in_flight_for(slow, 5).batches(), 5);
  EXPECT_EQ(in_flight_for(slow, 1), InFlight{}) << "three stages have a batch each";
}

TEST(InFlight, OfStagesInAChainGivesTheFiguresOfItsExample) {
  const StageTimes times = stages_in_a_chain(2, 1, 0.5);
  EXPECT_DOUBLE_EQ(times.train, 0.5);
  EXPECT_DOUBLE_EQ(times.sample, 1.25);
  EXPECT_DOUBLE_EQ(times.gather, 0.75);
  EXPECT_EQ(in_flight_for(times, 8), (InFlight{.sampled = 3, .gathered = 2}));
}

TEST(InFlight, OfStagesInAChainIsThreeOnAFastNetwork) {
  EXPECT_EQ(in_flight_for(stages_in_a_chain(0.8, 0.1, 0.03), 8), InFlight{});
  EXPECT_EQ(in_flight_for(stages_in_a_chain(1, 0, 0), 8), InFlight{});
  EXPECT_EQ(in_flight_for(stages_in_a_chain(0, 0, 0), 8), InFlight{});
}

TEST(InFlight, OfStagesInAChainIsTheMostWhereAllIsLatency) {
  EXPECT_EQ(in_flight_for(stages_in_a_chain(1, 2, 1), 8).batches(), 8);
}

TEST(InFlight, OfHostsThatTakePartGivesTheFiguresOfItsExample) {
  const StageTimes ids = stages_with_hosts(4, true, false);
  EXPECT_DOUBLE_EQ(ids.train, 1);
  EXPECT_DOUBLE_EQ(ids.sample, 3.5);
  EXPECT_EQ(in_flight_for(ids, 8), (InFlight{.sampled = 4, .gathered = 1}));
  EXPECT_EQ(in_flight_for(stages_with_hosts(4, false, true), 8), (InFlight{.sampled = 1, .gathered = 4}));
  EXPECT_EQ(in_flight_for(stages_with_hosts(4, true, true), 8), (InFlight{.sampled = 3, .gathered = 2}));
  EXPECT_EQ(in_flight_for(stages_with_hosts(4, true, true), 4).batches(), 4);
}

TEST(InFlight, DividesANumber) {
  EXPECT_EQ(in_flight_of(2), (InFlight{.sampled = 1, .gathered = 1}));
  EXPECT_EQ(in_flight_of(3), (InFlight{.sampled = 1, .gathered = 1}));
  EXPECT_EQ(in_flight_of(5), (InFlight{.sampled = 3, .gathered = 1}));
  EXPECT_EQ(in_flight_of(8), (InFlight{.sampled = 5, .gathered = 2}));
}

}  // namespace
}  // namespace strata::batches
