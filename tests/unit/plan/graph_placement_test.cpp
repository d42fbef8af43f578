// SPDX-License-Identifier: Apache-2.0
#include "strata/plan/graph_placement.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/expect_error.hpp"
#include "unit/plan/small_graph.hpp"

namespace strata::plan {
namespace {

using enum tensor::Stratum;

using namespace small_graph;

/// Planned as the request says, on two GPUs with room for everything.
GraphPlacement placed(const char* request) {
  return realise(choose_plan(
      {.tensors =
           graph_demands({.sizes = kSizes, .features = kFeatures, .accesses = kAccesses, .rates = kMeasured}),
       .limits = {.gpu_bytes = 1 << 20, .num_gpus = 2}},
      parse_placement(request)));
}

void expect_segment(const tensor::Segment& segment, Count on_each_gpu, Count in_stripes, Count on_host) {
  EXPECT_EQ(segment[replicated], on_each_gpu);
  EXPECT_EQ(segment[striped], in_stripes);
  EXPECT_EQ(segment[host], on_host);
}

TEST(Realise, TakesThePlacementOfEachTensor) {
  const GraphPlacement placement =
      placed("features=10/40/50,indices=20/0/80,indptr=0/0/100,original-ids=100/0/0,in-degrees=0/0/100");
  EXPECT_TRUE(placement.original_ids);
  EXPECT_FALSE(placement.in_degrees);
  expect_segment(placement.indptr.segments.at(0), 0, 0, 401);
  expect_segment(placement.indices.segments.at(0), 1000, 0, 4000);
  ASSERT_EQ(placement.features.segments.size(), 3u);
  expect_segment(placement.features.segments[0], 30, 120, 150);
  expect_segment(placement.features.segments[2], 10, 40, 50);
  EXPECT_EQ(placement.demands.size(), 5u);
  EXPECT_EQ(placement.limits.num_gpus, 2);
}

TEST(RealisedPlacements, AreThoseOfTheDemandsInTheirOrder) {
  const GraphPlacement placement = placed("features=10/40/50,original-ids=100/0/0,in-degrees=0/0/100");
  const auto realised = realised_placements(placement, placement.features);
  ASSERT_EQ(realised.size(), placement.demands.size());
  for (std::size_t i = 0; i < realised.size(); ++i) {
    const GraphTensor tensor = tensor_of(placement.demands[i].name);
    const tensor::Segment& first = realised[i].segments.at(0);
    if (tensor == GraphTensor::original_ids) expect_segment(first, 1000, 0, 0);
    if (tensor == GraphTensor::in_degrees) expect_segment(first, 0, 0, 1000);
    if (tensor == GraphTensor::features) expect_segment(first, 30, 120, 150);
  }
}

// A tensor on the host forgets its segments, but the demand has three.
TEST(RealisedPlacements, HaveTheSegmentsOfTheirDemand) {
  const GraphPlacement placement = placed("features=0/100/0");
  const auto realised = realised_placements(placement, tensor::Placement::on_host(400));
  ASSERT_EQ(realised.back().segments.size(), 3u);
  expect_segment(realised.back().segments[0], 0, 0, 300);
  expect_segment(realised.back().segments[1], 0, 0, 0);
  expect_segment(realised.back().segments[2], 0, 0, 100);
}

TEST(ExpectedPlanRows, SayWhatLiesWhere) {
  const GraphPlacement placement = placed("features=10/40/50");
  const auto rows = plan_rows(kSizes, kFeatures.spec(), placement, placement.features);
  std::vector<PlanRow> features;
  std::ranges::copy_if(rows, std::back_inserter(features),
                       [](const auto& row) { return row.tensor == "features"; });
  ASSERT_EQ(features.size(), 3u);
  const std::vector<std::string> strata = {"replicated", "striped", "host"};
  const std::vector<Count> counts = {40, 160, 200};
  double share = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(features[i].stratum, strata[i]);
    EXPECT_EQ(features[i].rows, counts[i]);
    EXPECT_EQ(features[i].bytes, counts[i] * kRow);
    ASSERT_TRUE(features[i].expected.has_value());
    share += features[i].expected->share;
  }
  EXPECT_NEAR(share, 1, 1e-9);
}

GraphDemand demand(const PlanLimits& limits) {
  return {.tensors = graph_demands(
              {.sizes = kSizes, .features = kFeatures, .accesses = kAccesses, .rates = kMeasured}),
          .limits = limits};
}

TEST(WithoutInputs, LeavesAQuarterMoreThanTheExpectedRowsOfABatch) {
  const PlanLimits limits{.gpu_bytes = 10'000, .host_bytes = 77, .num_gpus = 3};
  const PlanLimits left = without_inputs(limits, kAccesses, 8);
  EXPECT_EQ(left.gpu_bytes, 10'000 - 900 * 8 * 5 / 4);
  EXPECT_EQ(left.host_bytes, 77);
  EXPECT_EQ(left.num_gpus, 3);
  EXPECT_EQ(without_inputs({.gpu_bytes = 10, .num_gpus = 1}, kAccesses, 8).gpu_bytes, 0);
}

TEST(ChoosePlan, GivesTheDemandBackWithWhatWasAskedFor) {
  const PlanLimits limits{.gpu_bytes = 1 << 20, .num_gpus = 2};
  const ChosenPlan chosen = choose_plan(demand(limits), parse_placement("features=0/0/100"));
  EXPECT_EQ(chosen.demand.limits.gpu_bytes, limits.gpu_bytes);
  ASSERT_EQ(chosen.plan.tensors.size(), chosen.demand.tensors.size());
  for (std::size_t i = 0; i < chosen.plan.tensors.size(); ++i) {
    const TensorPlan& tensor = chosen.plan.tensors[i];
    const bool asked_for = tensor.name == name_of(GraphTensor::features);
    EXPECT_EQ(tensor.name, chosen.demand.tensors[i].name);
    EXPECT_EQ(chosen.demand.tensors[i].fixed.has_value(), asked_for) << tensor.name;
    EXPECT_EQ(tensor.placement.segments[0][host] > 0, asked_for) << tensor.name;
  }
}

TEST(ChoosePlan, RefusesWhatCannotBe) {
  test::expect_error(
      [] {
        choose_plan(demand({.gpu_bytes = 1 << 20, .num_gpus = 1}), parse_placement("in-degrees=50/0/50"));
      },
      {"in-degrees", "as a whole"});
}

TEST(LeastHostBytes, AreStructureAndWhatTheGpusCannotHold) {
  EXPECT_EQ(least_host_bytes(kSizes, kFeatures, 0), kSizes.bytes() + 400 * kRow);
  EXPECT_EQ(least_host_bytes(kSizes, kFeatures, 100 * kRow), kSizes.bytes() + 300 * kRow);
  EXPECT_EQ(least_host_bytes(kSizes, kFeatures, 1000 * kRow), kSizes.bytes());
}

TEST(GraphPlacement, CountsTheHostRowsOfAllSegmentsAsTheyAreLaidOut) {
  GraphPlacement placement;
  placement.features.segments = {{{replicated, 5}, {host, 10}}, {}, {{striped, 7}, {host, 20}}};
  EXPECT_EQ(placement.host_feature_bytes(kFeatures), 30 * kRow);
  placement.layout.padded = true;
  EXPECT_EQ(placement.host_feature_bytes(kFeatures), 30 * 128);
}

}  // namespace
}  // namespace strata::plan
