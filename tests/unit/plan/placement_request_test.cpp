// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "strata/plan/placement.hpp"
#include "support/expect_error.hpp"

namespace strata::plan {
namespace {

using enum tensor::Stratum;

using Mode = PlacementRequest::Mode;

TensorDemand demand(std::string name, std::vector<HeatCurve> segments, bool whole = false) {
  return {.name = std::move(name),
          .row_bytes = 8,
          .segments = std::move(segments),
          .rates = {{replicated, {4}}, {striped, {2}}, {host, {1}}},
          .whole = whole};
}

std::vector<TensorDemand> small_demands() {
  return {demand("indptr", {HeatCurve::flat(401, 1)}, true),
          demand("original ids", {HeatCurve::flat(1000, 1)}, true),
          demand("features", {HeatCurve::flat(300, 9), {}, HeatCurve::flat(99, 1)})};
}

std::vector<TensorDemand> fixed(const std::string& text, const PlanLimits& limits) {
  std::vector<TensorDemand> all = small_demands();
  fix_placements(parse_placement(text), limits, all);
  return all;
}

void expect_rows(const tensor::Segment& segment, Count on_each_gpu, Count in_stripes, Count on_host) {
  EXPECT_EQ(segment[replicated], on_each_gpu);
  EXPECT_EQ(segment[striped], in_stripes);
  EXPECT_EQ(segment[host], on_host);
}

const PlanLimits kGpus{.gpu_bytes = 1 << 20, .num_gpus = 2};

TEST(ParsePlacement, ReadsModes) {
  EXPECT_EQ(parse_placement("auto").mode, Mode::automatic);
  EXPECT_EQ(parse_placement("host").mode, Mode::host);
  EXPECT_EQ(parse_placement("replicate").mode, Mode::replicate);
  EXPECT_EQ(parse_placement("stripe").mode, Mode::stripe);
  EXPECT_EQ(parse_placement("in-order").mode, Mode::in_order);
  EXPECT_EQ(parse_placement("in-order").text(), "in-order");
}

TEST(ParsePlacement, ReadsSharesAndWritesThemBack) {
  const PlacementRequest request = parse_placement("features=10%/40.5%/49.5%,original_ids=0/0/100");
  EXPECT_EQ(request.mode, Mode::shares);
  ASSERT_EQ(request.shares.size(), 2u);
  EXPECT_EQ(request.shares[0].tensor, "features");
  EXPECT_EQ(request.shares[0].percent[replicated], 10);
  EXPECT_EQ(request.shares[0].percent[striped], 40.5);
  EXPECT_EQ(request.shares[0].percent[host], 49.5);
  EXPECT_EQ(request.text(), "features=10/40.5/49.5,original-ids=0/0/100");
  EXPECT_EQ(parse_placement(request.text()).text(), request.text());
  EXPECT_EQ(parse_placement("stripe").text(), "stripe");
}

TEST(ParsePlacement, RefusesWhatItCannotRead) {
  const auto refuse = [](const std::string& text, const std::string& why) {
    test::expect_error([&] { parse_placement(text); }, {"--placement", why, "features=10/40/50"});
  };
  refuse("", "is no placement");
  refuse("gpu", "\"gpu\" is no placement");
  refuse("feature=1/2/97", "names no tensor; there are features, indptr");
  refuse("features=50/50", "has 2 shares instead of 3");
  refuse("features=10/40/60", "adds up to 110 percent");
  refuse("features=10/x/60", "\"x\" is no percentage");
  refuse("features=-10/50/60", "\"-10\" is no percentage");
  refuse("features=nan/50/50", "is no percentage");
  refuse("features=10/40/50,", "\"\" is no placement");
  refuse("features=10/40/50,features=0/0/100", "names features twice");
}

TEST(FixPlacements, LeavesAllToThePlannerByDefault) {
  for (const TensorDemand& d : fixed("auto", kGpus)) EXPECT_FALSE(d.fixed.has_value()) << d.name;
}

TEST(FixPlacements, TakesTheSharesOfEachSegment) {
  const std::vector<TensorDemand> all =
      fixed("features=10/40/50,original_ids=100/0/0,indices=0/0/100", kGpus);
  EXPECT_FALSE(all[0].fixed.has_value());
  EXPECT_EQ(all[1].fixed->segments[0][replicated], 1000);
  ASSERT_EQ(all[2].fixed->segments.size(), 3u);
  expect_rows(all[2].fixed->segments[0], 30, 120, 150);
  expect_rows(all[2].fixed->segments[1], 0, 0, 0);
  expect_rows(all[2].fixed->segments[2], 10, 39, 50);
}

TEST(FixPlacements, DividesWholeTensorsThatMayBe) {
  std::vector<TensorDemand> all = {demand("indices", {HeatCurve::flat(1000, 1)}, true)};
  all[0].divisible = true;
  fix_placements(parse_placement("indices=15/20/65"), kGpus, all);
  expect_rows(all[0].fixed->segments[0], 150, 200, 650);
}

TEST(FixPlacements, DecidesOnAllTensorsAtOnce) {
  for (const TensorDemand& d : fixed("host", kGpus))
    EXPECT_EQ(d.fixed->segments[0][host], d.segments[0].rows());
  for (const TensorDemand& d : fixed("replicate", kGpus)) {
    EXPECT_EQ(d.fixed->segments[0][replicated], d.segments[0].rows());
  }
  const std::vector<TensorDemand> all = fixed("stripe", kGpus);
  EXPECT_FALSE(all[0].fixed.has_value());
  expect_rows(all[2].fixed->segments[0], 0, 300, 0);
}

/// Features of 3200 bytes, indices of 8000 and offsets of 3208.
std::vector<TensorDemand> graph_demands() {
  std::vector<TensorDemand> all = {
      demand("indptr", {HeatCurve::flat(401, 1)}, true),
      demand("indices", {HeatCurve::flat(600, 90), HeatCurve::flat(400, 1)}),
      demand("original ids", {HeatCurve::flat(1000, 1)}, true),
      demand("features", {HeatCurve::flat(300, 1), {}, HeatCurve::flat(100, 1)})};
  all.front().divisible = true;
  return all;
}

TEST(FixPlacements, FillsGpusInOrder) {
  const auto rows_on_gpus = [](std::int64_t gpu_bytes, int num_gpus) {
    std::vector<TensorDemand> all = graph_demands();
    const PlanLimits limits{.gpu_bytes = gpu_bytes, .num_gpus = num_gpus, .stripe_rows = 1};
    fix_placements(parse_placement("in-order"), limits, all);
    EXPECT_LE(plan_tensors(all, limits).gpu_bytes, gpu_bytes);
    std::vector<Count> rows;
    for (const TensorDemand& demand : all) {
      Count on_gpus = 0;
      for (const tensor::Segment& segment : demand.fixed.value().segments) {
        EXPECT_EQ(num_gpus > 1 ? segment[replicated] : segment[striped], 0);
        on_gpus += segment.rows() - segment[host];
      }
      rows.push_back(on_gpus);
    }
    return rows;  // of indptr, indices, original ids, features
  };
  EXPECT_EQ(rows_on_gpus(0, 1), (std::vector<Count>{0, 0, 0, 0}));
  EXPECT_EQ(rows_on_gpus(1600, 1), (std::vector<Count>{0, 0, 0, 200}));
  EXPECT_EQ(rows_on_gpus(3200 + 4000, 1), (std::vector<Count>{0, 500, 0, 400}));
  EXPECT_EQ(rows_on_gpus(3200 + 8000 + 3208 + 7999, 1), (std::vector<Count>{401, 1000, 0, 400}));
  EXPECT_EQ(rows_on_gpus(3200 + 8000 + 3208 + 8000, 1), (std::vector<Count>{401, 1000, 1000, 400}));
  EXPECT_EQ(rows_on_gpus(1600 + 2000, 2), (std::vector<Count>{0, 500, 0, 400}));
}

TEST(FixPlacements, NeedsNoGpuForAnOrder) {
  std::vector<TensorDemand> all = graph_demands();
  fix_placements(parse_placement("in-order"), {.gpu_bytes = 1 << 20, .num_gpus = 0}, all);
  for (const TensorDemand& demand : all) EXPECT_FALSE(demand.fixed.has_value());
}

TEST(FixPlacements, RefusesWhatCannotBe) {
  test::expect_error([] { fixed("indptr=50/0/50", kGpus); }, {"indptr", "as a whole", "indptr=100/0/0"});
  test::expect_error([] { fixed("indptr=0/100/0", kGpus); }, {"indptr", "as a whole"});
  test::expect_error([] { fixed("replicate", {}); }, {"--placement replicate", "no GPU", "--device cuda"});
  test::expect_error([] { fixed("features=0/1/99", {}); }, {"--placement features=0/1/99", "no GPU"});
  EXPECT_EQ(fixed("host", {})[2].fixed->segments[0][host], 300);
}

}  // namespace
}  // namespace strata::plan
