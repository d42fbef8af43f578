// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "strata/plan/graph_placement.hpp"
#include "unit/plan/small_graph.hpp"

namespace strata::plan {
namespace {

using enum tensor::Stratum;

using namespace small_graph;

std::vector<TensorDemand> demands(const RegionSizes& sizes = kSizes) {
  return graph_demands({.sizes = sizes, .features = kFeatures, .accesses = kAccesses, .rates = kMeasured});
}

const TensorDemand& named(const std::vector<TensorDemand>& all, const std::string& name) {
  return *std::ranges::find(all, name, &TensorDemand::name);
}

TEST(GraphDemands, AreTheTensorsOfARun) {
  const std::vector<TensorDemand> all = demands();
  ASSERT_EQ(all.size(), 5u);
  EXPECT_EQ(named(all, "indptr").rows(), 401);
  EXPECT_EQ(named(all, "indptr").row_bytes, 8);
  EXPECT_EQ(named(all, "indptr").accesses(), 300);
  EXPECT_EQ(named(all, "indptr").rates[host].bytes_per_second, 8);
  EXPECT_EQ(named(all, "indices").rows(), 5000);
  EXPECT_EQ(named(all, "indices").accesses(), 300);
  EXPECT_EQ(named(all, "original ids").row_bytes, 4);
  EXPECT_EQ(named(all, "in-degrees").rows(), 1000);
  EXPECT_EQ(named(all, "features").rows(), 400);
  EXPECT_EQ(named(all, "features").rates[striped].bytes_per_second, 400);
  EXPECT_TRUE(named(all, "indices").whole);
  EXPECT_FALSE(named(all, "features").whole);
}

TEST(GraphDemands, LeaveOutWhatIsNotLoaded) {
  RegionSizes sizes = kSizes;
  sizes.in_degrees = false;
  EXPECT_EQ(demands(sizes).size(), 4u);
}

TEST(GraphDemands, HaveTheWeightsAndIdsOfEdgesInTheirLists) {
  RegionSizes sizes = kSizes;
  sizes.weights = true;
  EXPECT_EQ(sizes.bytes(), kSizes.bytes() + 4 * kSizes.local_edges);
  EXPECT_EQ(named(demands(sizes), "indices").row_bytes, 8);
  EXPECT_EQ(named(demands(sizes), "indices").rows(), 5000);
  sizes.edge_ids = true;
  const std::vector<TensorDemand> all = demands(sizes);
  EXPECT_EQ(all.size(), 5u);
  EXPECT_EQ(named(all, "indices").row_bytes, 16);
}

// 300 visits read 900 entries: from the host three in the time of one row, of each array.
TEST(GraphDemands, ReadAListOnTheHostInTheTimeOfARow) {
  const auto host_seconds = [](const RegionSizes& sizes) {
    const auto all = demands(sizes);
    const TensorDemand& lists = named(all, "indices");
    EXPECT_EQ(lists.accesses(), 300);
    EXPECT_DOUBLE_EQ(lists.bytes_read(lists.accesses()), 900.0 * static_cast<double>(lists.row_bytes));
    return lists.bytes_read(lists.accesses()) / lists.rates[host].bytes_per_second;
  };
  EXPECT_DOUBLE_EQ(host_seconds(kSizes), 300 * 4 / 4.0);
  RegionSizes weighted = kSizes;
  weighted.weights = true;
  EXPECT_DOUBLE_EQ(host_seconds(weighted), 2 * 300 * 8 / 8.0);
}

const std::vector<ListPart> kParts = {{300, 4000}, {0, 0}, {100, 1000}};

std::vector<TensorDemand> demands_of_parts(const BatchAccesses& accesses = kAccesses) {
  return graph_demands({.sizes = kSizes,
                        .features = kFeatures,
                        .accesses = accesses,
                        .rates = kMeasured,
                        .list_parts = kParts,
                        .directory_bytes = 400 / 16 * 8});
}

TEST(ListParts, HaveTheEntriesOfTheirLists) {
  const std::vector<Count> indptr = {7, 9, 9, 12, 20}, nodes = {3, 0, 1};
  const std::vector<ListPart> parts = list_parts_of(indptr.data(), nodes);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].nodes, 3);
  EXPECT_EQ(parts[0].entries, 5);
  EXPECT_EQ(parts[1].entries, 0);
  EXPECT_EQ(parts[2].entries, 8);
}

TEST(RowLengths, AreThoseOfTheDemandsEachOnce) {
  EXPECT_EQ(row_lengths(kSizes, kFeatures), (std::vector<std::int64_t>{4, 8, 40}));
  RegionSizes sizes = kSizes;
  sizes.weights = sizes.edge_ids = true;
  EXPECT_EQ(row_lengths(sizes, {}), (std::vector<std::int64_t>{4, 8, 16}));
}

TEST(GraphDemands, AreDividedByParts) {
  const auto all = demands_of_parts();
  const TensorDemand &indptr = named(all, "indptr"), &indices = named(all, "indices");
  ASSERT_EQ(indptr.segments.size(), 3u);
  EXPECT_EQ(indptr.segments[0].rows(), 300);
  EXPECT_EQ(indptr.segments[2].rows(), 101);
  EXPECT_NEAR(indptr.accesses(), 300, 1e-9);
  EXPECT_TRUE(indptr.whole);
  EXPECT_TRUE(indptr.divisible);
  ASSERT_EQ(indices.segments.size(), 3u);
  EXPECT_EQ(indices.segments[0].rows(), 4000);
  EXPECT_NEAR(indices.segments[2].accesses(), 300 / 5.0, 1e-9);
  EXPECT_TRUE(indices.whole);
  EXPECT_TRUE(indices.divisible);
  EXPECT_FALSE(named(all, "original ids").divisible);
}

// Of the first part's lists a quarter of the entries has nearly all visits.
TEST(GraphDemands, LeaveColdListsOnTheHost) {
  BatchAccesses accesses = kAccesses;
  accesses.list_visits = {{{{1000, 266}, {4000, 270}}}, {}, {{{100, 26}, {1000, 30}}}};
  auto all = demands_of_parts(accesses);
  const std::int64_t directory = named(all, "indices").division_bytes;
  EXPECT_EQ(directory, 400 / 16 * 8);
  EXPECT_FALSE(named(all, "indices").whole);
  ASSERT_EQ(named(all, "indices").segments.size(), 3u);
  all.pop_back();  // the features
  const PlanLimits limits{.gpu_bytes = kLookups + 1100 * 4 + directory, .num_gpus = 1};
  const MachinePlan plan = plan_tensors(all, limits);
  EXPECT_LE(plan.gpu_bytes, limits.gpu_bytes);
  const auto lists = std::ranges::find(plan.tensors, "indices", &TensorPlan::name);
  const auto& segments = lists->placement.segments;
  EXPECT_EQ(segments[0][replicated], 1000);
  EXPECT_EQ(segments[0][host], 3000);
  EXPECT_EQ(segments[2][replicated], 100);
  EXPECT_EQ(segments[2][host], 900);
}

TEST(GraphDemands, LeaveListsWholeWhereTheirHeatIsNotKnown) {
  EXPECT_TRUE(named(demands_of_parts(), "indices").whole);
}

TEST(GraphDemands, PlaceLookupsBeforeFeatures) {
  const MachinePlan plan =
      plan_tensors(demands(), {.gpu_bytes = kLookups + kIndices + 200 * kRow, .num_gpus = 1});
  for (const TensorPlan& tensor : plan.tensors) {
    if (tensor.name == "features") continue;
    EXPECT_GT(tensor.placement.segments[0][replicated], 0) << tensor.name;
  }
  const auto& features = plan.tensors.back().placement.segments;
  ASSERT_EQ(features.size(), 3u);
  EXPECT_EQ(features[0][replicated], 150);
  EXPECT_EQ(features[2][replicated], 50);
}

TEST(AllFit, WhereAGpuHasRoomForEveryTensor) {
  const std::int64_t all = kLookups + kIndices + 400 * kRow;
  EXPECT_TRUE(all_fit(demands(), {.gpu_bytes = all, .num_gpus = 1}));
  EXPECT_FALSE(all_fit(demands(), {.gpu_bytes = all - 1, .num_gpus = 4}));
}

TEST(GraphDemands, ReadStructureByZeroCopyHoweverFeaturesAreRead) {
  std::vector<tensor::MeasuredPaths> measured = kMeasured;
  for (tensor::MeasuredPaths& paths : measured) paths.host_threads = 10 * paths.rates[host].bytes_per_second;
  const auto all = graph_demands({.sizes = kSizes,
                                  .features = kFeatures,
                                  .accesses = kAccesses,
                                  .rates = measured,
                                  .host_path = tensor::HostPath::threads});
  EXPECT_EQ(named(all, "features").rates[host].bytes_per_second, 400);
  EXPECT_EQ(named(all, "indptr").rates[host].bytes_per_second, 8);
}

TEST(GraphDemands, TakeRoomForPaddedRows) {
  const FeatureShape padded = kFeatures.with_padding();
  EXPECT_EQ(padded.row_pitch(), 128);
  const auto all =
      graph_demands({.sizes = kSizes, .features = padded, .accesses = kAccesses, .rates = kMeasured});
  EXPECT_EQ(named(all, "features").row_bytes, 128);
  EXPECT_EQ(named(all, "features").rates[striped].bytes_per_second, 400);  // that of the bytes which are read
}

TEST(RegionSizes, CountWideIdsAsEightBytes) {
  RegionSizes sizes = kSizes;
  sizes.num_nodes = Count{1} << 31;
  sizes.in_degrees = false;
  EXPECT_EQ(sizes.bytes(), 401 * 8 + 5000 * 8 + (std::int64_t{1} << 34));
}

}  // namespace
}  // namespace strata::plan
