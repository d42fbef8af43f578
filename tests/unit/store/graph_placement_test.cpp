// SPDX-License-Identifier: Apache-2.0
#include "graph_placement.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "strata/placement/path_rates.hpp"

namespace strata::store {
namespace {

const RegionSizes kSizes{
    .num_nodes = 1000, .first_node = 0, .num_local = 400, .local_edges = 5000, .in_degrees = true};
const FeatureShape kFeatures{.cols = 10, .dtype = DType::f32, .part_rows = {300, 0, 100}};
const std::vector<MeasuredRates> kMeasured = {{4, {{.local = 400, .peer = 40, .host = 4}}},
                                              {8, {{.local = 800, .peer = 80, .host = 8}}},
                                              {40, {{.local = 2000, .peer = 400, .host = 40}}}};
constexpr std::int64_t kLookups = 401 * 8 + 1000 * 4 + 1000 * 4;
constexpr std::int64_t kIndices = 5000 * 4;
constexpr std::int64_t kRow = 40;

const BatchAccesses kAccesses{
    .features = {placement::HeatCurve::flat(300, 300), {}, placement::HeatCurve::flat(100, 100)},
    .lists = 300,
    .neighbors = 900,
    .nodes = 900};

std::vector<placement::TensorDemand> demands(const RegionSizes& sizes = kSizes) {
  return graph_demands(sizes, kFeatures, kAccesses, kMeasured);
}

const placement::TensorDemand& named(const std::vector<placement::TensorDemand>& all,
                                     const std::string& name) {
  return *std::ranges::find(all, name, &placement::TensorDemand::name);
}

TEST(GraphDemands, AreTheTensorsOfARun) {
  const std::vector<placement::TensorDemand> all = demands();
  ASSERT_EQ(all.size(), 5u);
  EXPECT_EQ(named(all, "indptr").rows(), 401);
  EXPECT_EQ(named(all, "indptr").row_bytes, 8);
  EXPECT_EQ(named(all, "indptr").accesses(), 300);
  EXPECT_EQ(named(all, "indptr").rates.host, 8);
  EXPECT_EQ(named(all, "indices").rows(), 5000);
  EXPECT_EQ(named(all, "indices").accesses(), 300);
  EXPECT_EQ(named(all, "original ids").row_bytes, 4);
  EXPECT_EQ(named(all, "in-degrees").rows(), 1000);
  EXPECT_EQ(named(all, "features").rows(), 400);
  EXPECT_EQ(named(all, "features").rates.peer, 400);
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
  const std::vector<placement::TensorDemand> all = demands(sizes);
  EXPECT_EQ(all.size(), 5u);
  EXPECT_EQ(named(all, "indices").row_bytes, 16);
}

// 300 visits read 900 entries: from the host three in the time of one row, of each array.
TEST(GraphDemands, ReadAListOnTheHostInTheTimeOfARow) {
  const auto host_seconds = [](const RegionSizes& sizes) {
    const auto all = demands(sizes);
    const placement::TensorDemand& lists = named(all, "indices");
    EXPECT_EQ(lists.accesses(), 300);
    EXPECT_DOUBLE_EQ(lists.bytes_read(lists.accesses()), 900.0 * static_cast<double>(lists.row_bytes));
    return lists.bytes_read(lists.accesses()) / lists.rates.host;
  };
  EXPECT_DOUBLE_EQ(host_seconds(kSizes), 300 * 4 / 4.0);
  RegionSizes weighted = kSizes;
  weighted.weights = true;
  EXPECT_DOUBLE_EQ(host_seconds(weighted), 2 * 300 * 8 / 8.0);
}

const std::vector<ListPart> kParts = {{300, 4000}, {0, 0}, {100, 1000}};

TEST(GraphDemands, AreDividedByParts) {
  const auto all =
      graph_demands(kSizes, kFeatures, kAccesses, kMeasured, tensor::HostPath::automatic, kParts);
  const placement::TensorDemand &indptr = named(all, "indptr"), &indices = named(all, "indices");
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
  auto all = graph_demands(kSizes, kFeatures, accesses, kMeasured, tensor::HostPath::automatic, kParts);
  const std::int64_t directory = named(all, "indices").division_bytes;
  EXPECT_EQ(directory, 400 / 16 * 8);
  EXPECT_FALSE(named(all, "indices").whole);
  ASSERT_EQ(named(all, "indices").segments.size(), 3u);
  all.pop_back();  // the features
  const placement::PlanLimits limits{.gpu_bytes = kLookups + 1100 * 4 + directory, .num_gpus = 1};
  const placement::MachinePlan plan = placement::plan_tensors(all, limits);
  EXPECT_LE(plan.gpu_bytes, limits.gpu_bytes);
  const auto lists = std::ranges::find(plan.tensors, "indices", &placement::TensorPlan::name);
  const auto& segments = lists->placement.segments;
  EXPECT_EQ(segments[0].replicated, 1000);
  EXPECT_EQ(segments[0].host, 3000);
  EXPECT_EQ(segments[2].replicated, 100);
  EXPECT_EQ(segments[2].host, 900);
}

TEST(GraphDemands, LeaveListsWholeWhereTheirHeatIsNotKnown) {
  EXPECT_TRUE(
      named(graph_demands(kSizes, kFeatures, kAccesses, kMeasured, tensor::HostPath::automatic, kParts),
            "indices")
          .whole);
}

TEST(GraphDemands, PlaceLookupsBeforeFeatures) {
  const placement::MachinePlan plan =
      placement::plan_tensors(demands(), {.gpu_bytes = kLookups + kIndices + 200 * kRow, .num_gpus = 1});
  for (const placement::TensorPlan& tensor : plan.tensors) {
    if (tensor.name == "features") continue;
    EXPECT_GT(tensor.placement.segments[0].replicated, 0) << tensor.name;
  }
  const auto& features = plan.tensors.back().placement.segments;
  ASSERT_EQ(features.size(), 3u);
  EXPECT_EQ(features[0].replicated, 150);
  EXPECT_EQ(features[2].replicated, 50);
}

TEST(AllFit, WhereAGpuHasRoomForEveryTensor) {
  const std::int64_t all = kLookups + kIndices + 400 * kRow;
  EXPECT_TRUE(all_fit(demands(), {.gpu_bytes = all, .num_gpus = 1}));
  EXPECT_FALSE(all_fit(demands(), {.gpu_bytes = all - 1, .num_gpus = 4}));
}

TEST(BestLayout, IsTheFastestButPadsOnlyWhereItGains) {
  EXPECT_TRUE(placement::layout_matters(400));
  EXPECT_FALSE(placement::layout_matters(512));
  EXPECT_FALSE(placement::layout_matters(100));
  const auto best = [](const placement::LayoutRates& rates) { return placement::best_layout(rates); };
  EXPECT_TRUE(best({.as_they_lie = 30, .aligned = 40, .padded = 43}).aligned_reads);
  EXPECT_FALSE(best({.as_they_lie = 30, .aligned = 40, .padded = 43}).padded);
  EXPECT_TRUE(best({.as_they_lie = 30, .aligned = 40, .padded = 45}).padded);
  EXPECT_FALSE(best({.as_they_lie = 41, .aligned = 40, .padded = 10}).aligned_reads);
}

TEST(GraphDemands, ReadStructureByZeroCopyHoweverFeaturesAreRead) {
  std::vector<MeasuredRates> measured = kMeasured;
  for (MeasuredRates& rates : measured) rates.paths.host_threads = 10 * rates.paths.rates.host;
  const auto all = graph_demands(kSizes, kFeatures, kAccesses, measured, tensor::HostPath::threads);
  EXPECT_EQ(named(all, "features").rates.host, 400);
  EXPECT_EQ(named(all, "indptr").rates.host, 8);
}

TEST(GraphDemands, TakeRoomForPaddedRows) {
  FeatureShape padded = kFeatures;
  padded.padded = true;
  EXPECT_EQ(padded.row_pitch(), 128);
  EXPECT_EQ(named(graph_demands(kSizes, padded, kAccesses, kMeasured), "features").row_bytes, 128);
}

TEST(LeastHostBytes, AreStructureAndWhatTheGpusCannotHold) {
  EXPECT_EQ(least_host_bytes(kSizes, kFeatures, 0), kSizes.bytes() + 400 * kRow);
  EXPECT_EQ(least_host_bytes(kSizes, kFeatures, 100 * kRow), kSizes.bytes() + 300 * kRow);
  EXPECT_EQ(least_host_bytes(kSizes, kFeatures, 1000 * kRow), kSizes.bytes());
}

TEST(HostRate, OfALargeTableIsLimitedByTranslation) {
  const auto rate = [](const placement::MeasuredPaths& measured, std::int64_t row_bytes,
                       std::int64_t table_bytes) {
    return placement::host_rate_of_table(measured, row_bytes, table_bytes).bytes_per_second;
  };
  EXPECT_EQ(rate({{.host = 50e9}}, 512, std::int64_t{1} << 30), 50e9);
  EXPECT_EQ(rate({{.host = 50e9}}, 512, std::int64_t{1} << 31), 30e6 * 512);
  EXPECT_EQ(rate({{.host = 50e9}}, 4096, std::int64_t{1} << 31), 50e9);
}

TEST(HostRate, OfZeroCopyAndThreadsIsTheirSumAsFarAsTheLinkGoes) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 31;
  const placement::MeasuredPaths few{
      .rates = {.host = 50e9}, .host_threads = 20e9, .host_both = 48e9, .host_start = 1e-4};
  EXPECT_DOUBLE_EQ(placement::host_rate_of_table(few, 512, kLarge).bytes_per_second, 20e9 + 30e6 * 512);
  EXPECT_EQ(placement::host_rate_of_table(few, 512, kLarge).start_seconds, 1e-4);
  EXPECT_EQ(placement::host_rate_of_table(few, 2048, kLarge).bytes_per_second, 48e9);
  const placement::MeasuredPaths many{
      .rates = {.host = 50e9}, .host_threads = 55e9, .host_both = 48e9, .host_start = 1e-4};
  EXPECT_EQ(placement::host_rate_of_table(many, 512, kLarge).bytes_per_second, 55e9);
}

TEST(HostRate, IsThatOfThePathAskedFor) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 31, kSmall = std::int64_t{1} << 30;
  const placement::MeasuredPaths measured{
      .rates = {.host = 50e9}, .host_threads = 40e9, .host_both = 45e9, .host_start = 1e-4};
  EXPECT_EQ(
      placement::host_rate_of_table(measured, 512, kLarge, tensor::HostPath::zero_copy).bytes_per_second,
      30e6 * 512);
  EXPECT_EQ(placement::host_rate_of_table(measured, 512, kLarge, tensor::HostPath::zero_copy).start_seconds,
            0);
  EXPECT_EQ(placement::host_rate_of_table(measured, 512, kLarge, tensor::HostPath::threads).bytes_per_second,
            40e9);
  EXPECT_EQ(placement::host_rate_of_table(measured, 512, kSmall, tensor::HostPath::threads).start_seconds,
            1e-4);
  EXPECT_EQ(placement::host_rate_of_table(measured, 512, kSmall).bytes_per_second, 50e9);
  EXPECT_EQ(placement::host_rate_of_table({{.host = 50e9}}, 512, kLarge, tensor::HostPath::threads)
                .bytes_per_second,
            30e6 * 512);
}

TEST(RegionSizes, CountWideIdsAsEightBytes) {
  RegionSizes sizes = kSizes;
  sizes.num_nodes = Count{1} << 31;
  sizes.in_degrees = false;
  EXPECT_EQ(sizes.bytes(), 401 * 8 + 5000 * 8 + (std::int64_t{1} << 34));
}

}  // namespace
}  // namespace strata::store
