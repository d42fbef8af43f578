// SPDX-License-Identifier: Apache-2.0
#include "strata/plan/rates.hpp"

#include <gtest/gtest.h>

#include "unit/plan/small_graph.hpp"

namespace strata::plan {
namespace {

using enum tensor::Stratum;

using namespace small_graph;

constexpr std::int64_t kRoom = 1 << 20;

TEST(BestLayout, IsTheFastestButPadsOnlyWhereItGains) {
  EXPECT_TRUE(layout_matters(400));
  EXPECT_FALSE(layout_matters(512));
  EXPECT_FALSE(layout_matters(100));
  EXPECT_TRUE(best_layout({.as_they_lie = 30, .aligned = 40, .padded = 43}, kFeatures, kRoom).aligned_reads);
  EXPECT_FALSE(best_layout({.as_they_lie = 30, .aligned = 40, .padded = 43}, kFeatures, kRoom).padded);
  EXPECT_TRUE(best_layout({.as_they_lie = 30, .aligned = 40, .padded = 45}, kFeatures, kRoom).padded);
  EXPECT_FALSE(best_layout({.as_they_lie = 41, .aligned = 40, .padded = 10}, kFeatures, kRoom).aligned_reads);
}

TEST(HostRate, OfALargeTableIsLimitedByTranslation) {
  const auto rate = [](std::int64_t row_bytes, std::int64_t table_bytes) {
    return host_rate_of_table({row_bytes, {{host, {50e9}}}}, table_bytes).bytes_per_second;
  };
  EXPECT_EQ(rate(512, std::int64_t{1} << 30), 50e9);
  EXPECT_EQ(rate(512, std::int64_t{1} << 31), 30e6 * 512);
  EXPECT_EQ(rate(4096, std::int64_t{1} << 31), 50e9);
}

TEST(HostRate, OfZeroCopyAndThreadsIsTheirSumAsFarAsTheLinkGoes) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 31;
  tensor::MeasuredPaths few{.row_bytes = 512,
                            .rates = {{host, {50e9}}},
                            .host_threads = 20e9,
                            .host_both = 48e9,
                            .host_start = 1e-4};
  EXPECT_DOUBLE_EQ(host_rate_of_table(few, kLarge).bytes_per_second, 20e9 + 30e6 * 512);
  EXPECT_EQ(host_rate_of_table(few, kLarge).start_seconds, 1e-4);
  few.row_bytes = 2048;
  EXPECT_EQ(host_rate_of_table(few, kLarge).bytes_per_second, 48e9);
  const tensor::MeasuredPaths many{.row_bytes = 512,
                                   .rates = {{host, {50e9}}},
                                   .host_threads = 55e9,
                                   .host_both = 48e9,
                                   .host_start = 1e-4};
  EXPECT_EQ(host_rate_of_table(many, kLarge).bytes_per_second, 55e9);
}

TEST(HostRate, IsThatOfThePathAskedFor) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 31, kSmall = std::int64_t{1} << 30;
  const tensor::MeasuredPaths measured{.row_bytes = 512,
                                       .rates = {{host, {50e9}}},
                                       .host_threads = 40e9,
                                       .host_both = 45e9,
                                       .host_start = 1e-4};
  EXPECT_EQ(host_rate_of_table(measured, kLarge, tensor::HostPath::zero_copy).bytes_per_second, 30e6 * 512);
  EXPECT_EQ(host_rate_of_table(measured, kLarge, tensor::HostPath::zero_copy).start_seconds, 0);
  EXPECT_EQ(host_rate_of_table(measured, kLarge, tensor::HostPath::threads).bytes_per_second, 40e9);
  EXPECT_EQ(host_rate_of_table(measured, kSmall, tensor::HostPath::threads).start_seconds, 1e-4);
  EXPECT_EQ(host_rate_of_table(measured, kSmall).bytes_per_second, 50e9);
  EXPECT_EQ(host_rate_of_table({512, {{host, {50e9}}}}, kLarge, tensor::HostPath::threads).bytes_per_second,
            30e6 * 512);
}

TEST(BestLayout, PadsRowsOnlyIfAllOfThemHaveRoomThen) {
  const tensor::LayoutRates rates{.as_they_lie = 30, .aligned = 40, .padded = 50};
  const FeatureShape features{.cols = 40, .dtype = DType::f32, .part_rows = {300, 0, 100}};
  constexpr std::int64_t kPadded = 400 * 256;
  EXPECT_TRUE(best_layout(rates, features, kPadded).padded);
  EXPECT_FALSE(best_layout(rates, features, kPadded - 1).padded);
  EXPECT_TRUE(best_layout(rates, features, kPadded - 1).aligned_reads);
}

TEST(RatesOfTable, AreThoseOfItsRowLength) {
  const tensor::PathRates rates = rates_of_table(kMeasured, {.row_bytes = 8, .table_bytes = 800});
  EXPECT_EQ(rates[replicated].bytes_per_second, 800);
  EXPECT_EQ(rates[striped].bytes_per_second, 80);
  EXPECT_EQ(rates[host].bytes_per_second, 8);
  EXPECT_EQ(rates[host].start_seconds, 0);
}

TEST(RatesOfTable, AreZeroForALengthThatWasNotMeasured) {
  const tensor::PathRates rates = rates_of_table(kMeasured, {.row_bytes = 12, .table_bytes = 1200});
  EXPECT_EQ(rates[replicated].bytes_per_second, 0);
  EXPECT_EQ(rates[striped].bytes_per_second, 0);
  EXPECT_EQ(rates[host].bytes_per_second, 0);
}

TEST(RatesOfTable, HaveTheHostRateOfItsPath) {
  std::vector<tensor::MeasuredPaths> measured = kMeasured;
  measured[1].host_threads = 30;
  measured[1].host_start = 0.5;
  const tensor::PathRates rates =
      rates_of_table(measured, {.row_bytes = 8, .table_bytes = 800, .host_path = tensor::HostPath::threads});
  EXPECT_EQ(rates[replicated].bytes_per_second, 800);
  EXPECT_EQ(rates[host].bytes_per_second, 30);
  EXPECT_EQ(rates[host].start_seconds, 0.5);
}

}  // namespace
}  // namespace strata::plan
