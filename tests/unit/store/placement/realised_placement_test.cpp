// SPDX-License-Identifier: Apache-2.0
#include "placement/realised_placement.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "graph_tensor.hpp"
#include "placement/graph_demands.hpp"
#include "placement/plan_rows.hpp"
#include "unit/store/placement/small_graph.hpp"

namespace strata::store {
namespace {

using namespace small_graph;

/// Planned as the request says, on two GPUs with room for everything.
GraphPlacement placed(const char* request) {
  return realise(choose_plan(
      {.tensors =
           graph_demands({.sizes = kSizes, .features = kFeatures, .accesses = kAccesses, .rates = kMeasured}),
       .limits = {.gpu_bytes = 1 << 20, .num_gpus = 2}},
      placement::parse_placement(request)));
}

void expect_segment(const tensor::Segment& segment, Count replicated, Count striped, Count host) {
  EXPECT_EQ(segment.replicated, replicated);
  EXPECT_EQ(segment.striped, striped);
  EXPECT_EQ(segment.host, host);
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
  const auto rows = expected_plan_rows(placement, placement.features);
  std::vector<MachineGraph::PlanRow> features;
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

}  // namespace
}  // namespace strata::store
