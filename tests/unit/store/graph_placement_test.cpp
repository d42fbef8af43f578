#include "graph_placement.hpp"

#include <gtest/gtest.h>

namespace strata::store {
namespace {

const RegionSizes kSizes{
    .num_nodes = 1000, .first_node = 0, .num_local = 400, .local_edges = 5000, .in_degrees = true};
const FeatureShape kFeatures{.cols = 10, .dtype = DType::f32, .part_rows = {300, 0, 100}};
constexpr std::int64_t kLookups = 401 * 8 + 1000 * 4 + 1000 * 4;
constexpr std::int64_t kIndices = 5000 * 4;
constexpr std::int64_t kRow = 40;

Count replicated(const GraphPlacement& plan) {
  Count sum = 0;
  for (const Segment& s : plan.features.segments) sum += s.replicated;
  return sum;
}

TEST(PlanPlacement, KeepsAllOnTheHostWithoutABudget) {
  const GraphPlacement plan = plan_placement(kSizes, kFeatures, 0);
  EXPECT_FALSE(plan.indptr || plan.original_ids || plan.in_degrees || plan.indices);
  EXPECT_EQ(replicated(plan), 0);
  EXPECT_EQ(plan.host_bytes(kSizes, kFeatures), kSizes.bytes() + 400 * kRow);
}

TEST(PlanPlacement, PlacesLookupsThenIndicesThenFeatures) {
  GraphPlacement plan = plan_placement(kSizes, kFeatures, kLookups);
  EXPECT_TRUE(plan.indptr && plan.original_ids && plan.in_degrees);
  EXPECT_FALSE(plan.indices);
  plan = plan_placement(kSizes, kFeatures, kLookups + kIndices);
  EXPECT_TRUE(plan.indices);
  EXPECT_EQ(replicated(plan), 0);
}

TEST(PlanPlacement, TakesTheSameFractionOfEachPart) {
  const GraphPlacement plan = plan_placement(kSizes, kFeatures, kLookups + kIndices + 200 * kRow);
  ASSERT_EQ(plan.features.segments.size(), 3u);
  EXPECT_EQ(plan.features.segments[0].replicated, 150);
  EXPECT_EQ(plan.features.segments[0].host, 150);
  EXPECT_EQ(plan.features.segments[1].rows(), 0);
  EXPECT_EQ(plan.features.segments[2].replicated, 50);
}

TEST(PlanPlacement, KeepsNoFeatureOnTheHostWhereAllFit) {
  const GraphPlacement plan = plan_placement(kSizes, kFeatures, kLookups + kIndices + 400 * kRow);
  EXPECT_EQ(replicated(plan), 400);
  EXPECT_EQ(plan.host_bytes(kSizes, kFeatures), kSizes.bytes());
}

TEST(PlanPlacement, CountsWideIdsAsEightBytes) {
  RegionSizes sizes = kSizes;
  sizes.num_nodes = Count{1} << 31;
  sizes.in_degrees = false;
  EXPECT_EQ(sizes.bytes(), 401 * 8 + 5000 * 8 + (std::int64_t{1} << 34));
}

}  // namespace
}  // namespace strata::store
