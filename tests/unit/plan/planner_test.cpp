// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>

#include "strata/plan/placement.hpp"
#include "strata/util/error.hpp"
#include "support/expect_error.hpp"

namespace strata::plan {
namespace {

using enum tensor::Stratum;

using testing::ElementsAre;

constexpr tensor::PathRates kRates{{replicated, {2000}}, {striped, {400}}, {host, {20}}};

HeatCurve curve_of(const std::vector<double>& accesses) {
  HeatCurve curve;
  double sum = 0;
  for (const double a : accesses) {
    sum += a;
    curve.points.push_back({std::ssize(curve.points) + 1, sum});
  }
  return curve;
}

std::vector<double> zipf(Count rows, double exponent) {
  std::vector<double> accesses;
  for (Count r = 1; r <= rows; ++r) accesses.push_back(1e5 * std::pow(static_cast<double>(r), -exponent));
  return accesses;
}

TensorDemand features(std::vector<HeatCurve> segments) {
  return {.name = "features", .row_bytes = 16, .segments = std::move(segments), .rates = kRates};
}

tensor::Segment totals(const TensorPlan& plan) { return plan.placement.total(); }

double off_gpu(const MachinePlan& plan) { return plan.seconds[striped] + plan.seconds[host]; }

/// The least batch time of all placements of a tensor of one segment that fit, with stripes of single rows.
double brute_force(const TensorDemand& demand, const PlanLimits& limits) {
  const Count rows = demand.rows();
  std::vector<double> bytes_below;
  for (Count r = 0; r <= rows; ++r) {
    bytes_below.push_back(demand.segments[0].accesses_below(r) * static_cast<double>(demand.row_bytes));
  }
  const auto below = [&](Count r) { return bytes_below[at(r)]; };
  const auto seconds = [&](double bytes, tensor::Stratum s) {
    return bytes / demand.rates[s].bytes_per_second;
  };
  double best = std::numeric_limits<double>::infinity();
  for (Count copies = 0; copies <= rows; ++copies) {
    for (Count stripes = 0; copies + stripes <= rows; ++stripes) {
      const Count a_gpu = copies + (stripes + limits.num_gpus - 1) / limits.num_gpus;
      if (a_gpu * demand.row_bytes > limits.gpu_bytes) break;
      const double peer =
          seconds(below(copies + stripes) - below(copies), striped) * (limits.num_gpus - 1) / limits.num_gpus;
      best = std::min(best, std::max({seconds(below(rows), replicated), peer,
                                      seconds(below(rows) - below(copies + stripes), host)}));
    }
  }
  return best;
}

/// The same for several tensors, whose rows come in steps.
double brute_force_all(std::span<const TensorDemand> demands, const PlanLimits& limits, Count step) {
  double best = std::numeric_limits<double>::infinity();
  std::vector<tensor::Placement> placements(demands.size());
  const std::function<void(std::size_t)> place = [&](std::size_t t) {
    if (t == demands.size()) {
      const MachinePlan plan = estimate(demands, placements, limits);
      if (plan.gpu_bytes <= limits.gpu_bytes) best = std::min(best, plan.seconds.batch());
      return;
    }
    const Count rows = demands[t].rows(), least = demands[t].whole ? rows : step;
    for (Count copies = 0; copies <= rows; copies += least) {
      for (Count stripes = 0; copies + stripes <= rows; stripes += least) {
        if (demands[t].whole && stripes > 0) break;
        placements[t] = {
            .segments = {{{replicated, copies}, {striped, stripes}, {host, rows - copies - stripes}}},
            .stripe_rows = limits.stripe_rows};
        place(t + 1);
      }
    }
  };
  place(0);
  return best;
}

TEST(HeatCurve, IsLinearBetweenPoints) {
  const HeatCurve curve{{{10, 100}, {30, 140}}};
  EXPECT_EQ(curve.accesses_below(0), 0);
  EXPECT_EQ(curve.accesses_below(5), 50);
  EXPECT_EQ(curve.accesses_below(10), 100);
  EXPECT_EQ(curve.accesses_below(20), 120);
  EXPECT_EQ(curve.accesses_below(30), 140);
  EXPECT_EQ(HeatCurve().accesses_below(3), 0);
}

TEST(Estimate, CountsTheStartOfTheHostWhereItIsRead) {
  TensorDemand demand = features({curve_of({40, 20, 10, 6, 4, 2, 1, 1})});
  demand.rates[host].start_seconds = 3;
  const auto host_seconds = [&](const tensor::Segment& segment) {
    return estimate(std::span(&demand, 1), {tensor::Placement{.segments = {segment}}}, {.num_gpus = 1})
        .seconds[host];
  };
  EXPECT_DOUBLE_EQ(host_seconds({{replicated, 6}, {host, 2}}), 2 * 16 / 20.0 + 3);
  EXPECT_EQ(host_seconds({{replicated, 8}}), 0);
}

TEST(Estimate, AddsUpThePaths) {
  const TensorDemand demand = features({curve_of({40, 20, 10, 6, 4, 2, 1, 1})});
  const tensor::Placement placement{.segments = {{{replicated, 2}, {striped, 4}, {host, 2}}},
                                    .stripe_rows = 1};
  const MachinePlan plan = estimate(std::span(&demand, 1), {placement}, {.num_gpus = 2, .stripe_rows = 1});
  EXPECT_DOUBLE_EQ(plan.seconds[replicated], 84 * 16 / 2000.0);
  EXPECT_DOUBLE_EQ(plan.seconds[striped], 22 * 16 / 400.0 / 2);
  EXPECT_DOUBLE_EQ(plan.seconds[host], 2 * 16 / 20.0);
  EXPECT_DOUBLE_EQ(plan.seconds.batch(), 2 * 16 / 20.0);
  EXPECT_EQ(plan.gpu_bytes, (2 + 2) * 16);
  const auto& strata = plan.tensors[0].strata;
  ASSERT_EQ(strata.size(), 3u);
  EXPECT_DOUBLE_EQ(strata[0].share, 60 / 84.0);
  EXPECT_DOUBLE_EQ(strata[1].share, 22 / 84.0);
  EXPECT_DOUBLE_EQ(strata[2].share, 2 / 84.0);
  EXPECT_DOUBLE_EQ(strata[0].bytes_per_second, 2000);
  EXPECT_DOUBLE_EQ(strata[1].bytes_per_second, 800);
  EXPECT_DOUBLE_EQ(strata[2].bytes_per_second, 20);
}

std::vector<Count> rows_of(const std::vector<HottestRows>& hottest) {
  std::vector<Count> rows;
  for (const HottestRows& h : hottest) rows.push_back(h.rows);
  return rows;
}

TEST(HottestRows, ServeTheirShareOfAllSegments) {
  constexpr std::array kShares{0.5, 0.8, 0.9, 1.0};
  EXPECT_THAT(rows_of(hottest_rows(features({curve_of({50, 30, 15, 5})}), kShares)), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(rows_of(hottest_rows(features({curve_of({30, 5}), curve_of({50, 15})}), kShares)),
              ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(rows_of(hottest_rows(features({HeatCurve::flat(1000, 1)}), kShares)),
              ElementsAre(500, 800, 900, 1000));
  EXPECT_THAT(rows_of(hottest_rows(features({{}, HeatCurve::flat(10, 0)}), kShares)),
              ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(hottest_rows(features({}), {}), testing::IsEmpty());
}

TEST(HottestRows, AreTheFewestOfRowsInTheOrderOfTheirHeat) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<double> all;
    std::vector<HeatCurve> segments;
    for (int s = 0; s < 3; ++s) {
      std::vector<double> accesses(1 + random() % 40);
      for (double& a : accesses) a = static_cast<double>(1 + random() % 100000);
      std::ranges::sort(accesses, std::greater<>());
      segments.push_back(curve_of(accesses));
      all.insert(all.end(), accesses.begin(), accesses.end());
    }
    std::ranges::sort(all, std::greater<>());
    const double sum = std::accumulate(all.begin(), all.end(), 0.0);
    const std::array shares{0.1, 0.5, 0.77, 0.99};
    std::vector<Count> expected;
    for (const double share : shares) {
      double served = 0;
      Count rows = 0;
      while (served < share * sum) served += all[at(rows++)];
      expected.push_back(rows);
    }
    EXPECT_EQ(rows_of(hottest_rows(features(segments), shares)), expected);
  }
}

TEST(Estimate, CountsTheBlocksOfTheFullestGpu) {
  const TensorDemand demand = features({HeatCurve::flat(1000, 1)});
  const auto bytes = [&](Count stripes) {
    const tensor::Placement placement{.segments = {{{striped, stripes}, {host, 1000 - stripes}}}};
    return estimate(std::span(&demand, 1), {placement}, {.num_gpus = 3}).gpu_bytes;
  };
  EXPECT_EQ(bytes(0), 0);
  EXPECT_EQ(bytes(10), 10 * 16);
  EXPECT_EQ(bytes(192), 64 * 16);
  EXPECT_EQ(bytes(193), 128 * 16);
}

TEST(Plan, LeavesAllOnTheHostWithoutGpusOrBudget) {
  const TensorDemand demand = features({curve_of(zipf(50, 1)), curve_of(zipf(20, 1))});
  for (const PlanLimits& limits :
       {PlanLimits{.gpu_bytes = 1 << 20, .num_gpus = 0}, PlanLimits{.gpu_bytes = 0, .num_gpus = 4}}) {
    const MachinePlan plan = plan_tensors(std::span(&demand, 1), limits);
    EXPECT_EQ(totals(plan.tensors[0])[host], 70);
    EXPECT_EQ(plan.gpu_bytes, 0);
  }
}

TEST(Plan, ReplicatesAllThatFits) {
  for (const int gpus : {1, 2, 3, 8}) {
    const std::vector<TensorDemand> demands = {{.name = "indptr",
                                                .row_bytes = 8,
                                                .segments = {HeatCurve::flat(51, 10)},
                                                .rates = kRates,
                                                .whole = true},
                                               features({curve_of(zipf(40, 1)), {}, HeatCurve::flat(10, 0)})};
    const MachinePlan plan = plan_tensors(demands, {.gpu_bytes = 51 * 8 + 50 * 16, .num_gpus = gpus});
    EXPECT_EQ(totals(plan.tensors[0])[replicated], 51);
    EXPECT_EQ(totals(plan.tensors[1])[replicated], 50);
    EXPECT_EQ(off_gpu(plan), 0);
  }
}

TEST(Plan, StripesNothingOnOneGpuOrWithoutPeers) {
  TensorDemand demand = features({curve_of(zipf(100, 1))});
  EXPECT_EQ(
      totals(plan_tensors(std::span(&demand, 1), {.gpu_bytes = 160, .num_gpus = 1}).tensors[0])[striped], 0);
  demand.rates[striped].bytes_per_second = 0;
  const MachinePlan plan = plan_tensors(std::span(&demand, 1), {.gpu_bytes = 160, .num_gpus = 4});
  EXPECT_EQ(totals(plan.tensors[0])[striped], 0);
  EXPECT_EQ(totals(plan.tensors[0])[replicated], 10);
}

TEST(Plan, StripesAllWhereAllFitsOnlyTogether) {
  TensorDemand demand = features({HeatCurve::flat(1000, 1000)});
  const PlanLimits limits{.gpu_bytes = 252 * 16, .num_gpus = 4, .stripe_rows = 1};
  demand.rates[host].bytes_per_second = 1e-3;
  const tensor::Segment sum = totals(plan_tensors(std::span(&demand, 1), limits).tensors[0]);
  EXPECT_EQ(sum[host], 0);
  EXPECT_EQ(sum[striped], 1000);
}

TEST(Plan, IsAsGoodAsBruteForce) {
  constexpr Count kRows = 1500;
  std::mt19937_64 random(7);
  for (const double exponent : {0.0, 0.5, 1.0, 2.0}) {
    for (const int gpus : {1, 2, 3, 4, 8}) {
      for (const double fraction : {0.05, 0.2, 0.5, 0.9}) {
        TensorDemand demand = features({curve_of(zipf(kRows, exponent))});
        demand.rates[host].bytes_per_second = std::uniform_real_distribution(5.0, 300.0)(random);
        demand.rates[striped].bytes_per_second = std::uniform_real_distribution(100.0, 1000.0)(random);
        const PlanLimits limits{.gpu_bytes = static_cast<std::int64_t>(fraction * kRows * 16),
                                .num_gpus = gpus,
                                .stripe_rows = 1};
        const MachinePlan plan = plan_tensors(std::span(&demand, 1), limits);
        EXPECT_LE(plan.gpu_bytes, limits.gpu_bytes);
        PlanLimits less = limits;  // whole rows and blocks cost up to four rows
        less.gpu_bytes -= 4 * 16;
        EXPECT_LE(plan.seconds.batch(), brute_force(demand, less) * 1.01)
            << "exponent " << exponent << ", " << gpus << " GPUs, budget " << fraction << ", host "
            << demand.rates[host].bytes_per_second << ", peer " << demand.rates[striped].bytes_per_second;
      }
    }
  }
}

TEST(Plan, SharesTheBudgetAmongTensorsAsWellAsBruteForce) {
  for (const int gpus : {1, 2, 4}) {
    for (const Count budget : {1200, 3000, 5000, 9000, 16000, 30000}) {
      std::vector<TensorDemand> demands = {features({curve_of(zipf(120, 1))}),
                                           features({curve_of(zipf(120, 0.3))}),
                                           {.name = "indices",
                                            .row_bytes = 4,
                                            .segments = {HeatCurve::flat(1500, 3e4)},
                                            .rates = {{replicated, {500}}, {striped, {100}}, {host, {5}}},
                                            .whole = true}};
      demands[1].row_bytes = 8;
      const PlanLimits limits{.gpu_bytes = budget, .num_gpus = gpus, .stripe_rows = 1};
      const MachinePlan plan = plan_tensors(demands, limits);
      EXPECT_LE(plan.gpu_bytes, budget);
      EXPECT_LE(plan.seconds.batch(), brute_force_all(demands, limits, 80) * 1.01)
          << gpus << " GPUs, " << budget;
    }
  }
}

TEST(Plan, IsNeverWorseWithMoreMemory) {
  for (const double exponent : {0.0, 0.8, 1.5}) {
    const std::vector<TensorDemand> demands = {
        features({curve_of(zipf(3000, exponent)), curve_of(zipf(1000, exponent))}),
        {.name = "indices",
         .row_bytes = 4,
         .segments = {HeatCurve::flat(8000, 1e5)},
         .rates = kRates,
         .whole = true}};
    double last = std::numeric_limits<double>::infinity();
    for (std::int64_t budget = 0; budget <= 100000; budget += 2500) {
      const double seconds =
          plan_tensors(demands, {.gpu_bytes = budget, .num_gpus = 4, .stripe_rows = 1}).seconds.batch();
      EXPECT_LE(seconds, last * 1.001) << "budget " << budget << ", exponent " << exponent;
      last = seconds;
    }
  }
}

TEST(Plan, CutsAllSegmentsAtTheSameHeat) {
  std::vector<double> hot = zipf(500, 1), cold = hot;
  for (double& a : cold) a /= 4;
  TensorDemand demand = features({curve_of(hot), curve_of(cold)});
  demand.rates[host].bytes_per_second = 150;
  const MachinePlan plan =
      plan_tensors(std::span(&demand, 1), {.gpu_bytes = 130 * 16, .num_gpus = 4, .stripe_rows = 1});
  const auto& segments = plan.tensors[0].placement.segments;
  for (const auto& [last_hot, last_cold] : {std::pair{segments[0][replicated], segments[1][replicated]},
                                            std::pair{segments[0][replicated] + segments[0][striped],
                                                      segments[1][replicated] + segments[1][striped]}}) {
    ASSERT_GT(last_hot, 4);
    EXPECT_NEAR(static_cast<double>(last_hot), 4.0 * static_cast<double>(last_cold), 5);
  }
}

TEST(Plan, TakesTheSameFractionOfEquallyHotSegments) {
  const TensorDemand demand = features({HeatCurve::flat(300, 30), {}, HeatCurve::flat(100, 10)});
  const MachinePlan plan = plan_tensors(std::span(&demand, 1), {.gpu_bytes = 200 * 16, .num_gpus = 1});
  const auto& segments = plan.tensors[0].placement.segments;
  EXPECT_EQ(segments[0][replicated], 150);
  EXPECT_EQ(segments[1].rows(), 0);
  EXPECT_EQ(segments[2][replicated], 50);
}

TEST(Plan, SeesHeatBehindColdRows) {
  // The hot rows lie last in the first segment: a prefix takes all of it or nothing.
  const TensorDemand demand = features({HeatCurve{{{50, 0}, {100, 1000}}}, HeatCurve::flat(100, 500)});
  const PlanLimits limits{.gpu_bytes = 100 * 16, .num_gpus = 1};
  const MachinePlan plan = plan_tensors(std::span(&demand, 1), limits);
  EXPECT_EQ(plan.tensors[0].placement.segments[0][replicated], 100);
  EXPECT_EQ(plan.tensors[0].placement.segments[1][replicated], 0);
  EXPECT_DOUBLE_EQ(plan.tensors[0].strata[0].share, 1000 / 1500.0);
}

TEST(Plan, KeepsToTheMemoryOfTheHost) {
  TensorDemand demand = features({HeatCurve{{{100, 100000}, {1000, 1000}}}});
  demand.segments[0].points.back().accesses = 101000;
  PlanLimits limits{.gpu_bytes = 250 * 16, .num_gpus = 4, .stripe_rows = 1};
  EXPECT_GT(totals(plan_tensors(std::span(&demand, 1), limits).tensors[0])[host], 200);
  limits.host_bytes = 100 * 16;
  const tensor::Segment sum = totals(plan_tensors(std::span(&demand, 1), limits).tensors[0]);
  EXPECT_LE(sum[host], 100);
  EXPECT_GT(sum[replicated], 0);
}

TEST(Plan, KeepsWholeTensorsWhole) {
  TensorDemand whole = features({curve_of(zipf(100, 2))});
  whole.whole = true;
  const MachinePlan without = plan_tensors(std::span(&whole, 1), {.gpu_bytes = 99 * 16, .num_gpus = 2});
  EXPECT_EQ(totals(without.tensors[0])[host], 100);
  const MachinePlan with = plan_tensors(std::span(&whole, 1), {.gpu_bytes = 100 * 16, .num_gpus = 2});
  EXPECT_EQ(totals(with.tensors[0])[replicated], 100);
}

TEST(Plan, SpendsOnTheRestWhatFixedPlacementsLeave) {
  std::vector<TensorDemand> demands = {features({curve_of(zipf(100, 1))}),
                                       features({curve_of(zipf(100, 1))})};
  demands[0].fixed =
      tensor::Placement{.segments = {{{replicated, 20}, {striped, 40}, {host, 40}}}, .stripe_rows = 1};
  const PlanLimits limits{.gpu_bytes = (20 + 20 + 30) * 16, .num_gpus = 2, .stripe_rows = 1};
  const MachinePlan plan = plan_tensors(demands, limits);
  EXPECT_EQ(totals(plan.tensors[0])[replicated], 20);
  EXPECT_EQ(totals(plan.tensors[0])[striped], 40);
  EXPECT_GT(plan.gpu_bytes, limits.gpu_bytes - 3 * 16);
  EXPECT_LE(plan.gpu_bytes, limits.gpu_bytes);
}

TEST(Plan, RefusesFixedPlacementsOverTheBudget) {
  TensorDemand demand = features({HeatCurve::flat(100, 1)});
  demand.fixed = tensor::Placement::replicated(100);
  test::expect_error([&] { plan_tensors(std::span(&demand, 1), {.gpu_bytes = 99 * 16, .num_gpus = 2}); },
                     {"features", "1.6 KiB", "1.5 KiB", "--placement", "--gpu-memory"});
}

TEST(Plan, PaysForFindingTheRowsOfADividedTensor) {
  TensorDemand demand = features({curve_of(zipf(1000, 0.8))});
  demand.division_bytes = 500;
  const auto plan = [&](std::int64_t gpu_bytes, int num_gpus) {
    const MachinePlan plan =
        plan_tensors(std::span(&demand, 1), {.gpu_bytes = gpu_bytes, .num_gpus = num_gpus, .stripe_rows = 1});
    EXPECT_LE(plan.gpu_bytes, gpu_bytes);
    return plan.tensors[0].placement.segments[0];
  };
  EXPECT_EQ(plan(1000 * 16, 1)[replicated], 1000);  // whole: nothing to find
  EXPECT_EQ(plan(1000 * 16 - 1, 1)[replicated], (1000 * 16 - 1 - 500) / 16);
  EXPECT_EQ(plan(100 * 16 + 500, 1)[replicated], 100);
  EXPECT_EQ(plan(499, 1)[replicated], 0);
  const tensor::Segment two = plan(400 * 16 + 1000, 2);
  EXPECT_GT(two[striped], 0);
  EXPECT_GE(two[replicated] + two[striped], 500);
}

TEST(Estimate, ReadsRowsThatLieTogetherAtOnce) {
  TensorDemand demand = features({HeatCurve::flat(100, 50)});
  demand.rows_per_access = 3;
  const MachinePlan plan =
      estimate(std::span(&demand, 1), {tensor::Placement::on_host(100)}, {.num_gpus = 1});
  EXPECT_DOUBLE_EQ(plan.seconds[host], 3 * 50 * 16 / kRates[host].bytes_per_second);
  EXPECT_DOUBLE_EQ(plan.seconds[replicated], 3 * 50 * 16 / kRates[replicated].bytes_per_second);
}

TEST(Plan, LeavesTensorsWithoutBytesAlone) {
  TensorDemand demand = features({HeatCurve::flat(100, 1)});
  demand.row_bytes = 0;
  const MachinePlan plan = plan_tensors(std::span(&demand, 1), {.gpu_bytes = 1600, .num_gpus = 2});
  EXPECT_EQ(totals(plan.tensors[0])[host], 100);
}

}  // namespace
}  // namespace strata::plan
