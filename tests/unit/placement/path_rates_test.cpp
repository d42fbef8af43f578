// SPDX-License-Identifier: Apache-2.0
#include "strata/placement/path_rates.hpp"

#include <gtest/gtest.h>

namespace strata::placement {
namespace {

TEST(BestLayout, IsTheFastestButPadsOnlyWhereItGains) {
  EXPECT_TRUE(layout_matters(400));
  EXPECT_FALSE(layout_matters(512));
  EXPECT_FALSE(layout_matters(100));
  EXPECT_TRUE(best_layout({.as_they_lie = 30, .aligned = 40, .padded = 43}).aligned_reads);
  EXPECT_FALSE(best_layout({.as_they_lie = 30, .aligned = 40, .padded = 43}).padded);
  EXPECT_TRUE(best_layout({.as_they_lie = 30, .aligned = 40, .padded = 45}).padded);
  EXPECT_FALSE(best_layout({.as_they_lie = 41, .aligned = 40, .padded = 10}).aligned_reads);
}

TEST(HostRate, OfALargeTableIsLimitedByTranslation) {
  const auto rate = [](const MeasuredPaths& measured, std::int64_t row_bytes, std::int64_t table_bytes) {
    return host_rate_of_table(measured, row_bytes, table_bytes).bytes_per_second;
  };
  EXPECT_EQ(rate({{.host = 50e9}}, 512, std::int64_t{1} << 30), 50e9);
  EXPECT_EQ(rate({{.host = 50e9}}, 512, std::int64_t{1} << 31), 30e6 * 512);
  EXPECT_EQ(rate({{.host = 50e9}}, 4096, std::int64_t{1} << 31), 50e9);
}

TEST(HostRate, OfZeroCopyAndThreadsIsTheirSumAsFarAsTheLinkGoes) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 31;
  const MeasuredPaths few{
      .rates = {.host = 50e9}, .host_threads = 20e9, .host_both = 48e9, .host_start = 1e-4};
  EXPECT_DOUBLE_EQ(host_rate_of_table(few, 512, kLarge).bytes_per_second, 20e9 + 30e6 * 512);
  EXPECT_EQ(host_rate_of_table(few, 512, kLarge).start_seconds, 1e-4);
  EXPECT_EQ(host_rate_of_table(few, 2048, kLarge).bytes_per_second, 48e9);
  const MeasuredPaths many{
      .rates = {.host = 50e9}, .host_threads = 55e9, .host_both = 48e9, .host_start = 1e-4};
  EXPECT_EQ(host_rate_of_table(many, 512, kLarge).bytes_per_second, 55e9);
}

TEST(HostRate, IsThatOfThePathAskedFor) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 31, kSmall = std::int64_t{1} << 30;
  const MeasuredPaths measured{
      .rates = {.host = 50e9}, .host_threads = 40e9, .host_both = 45e9, .host_start = 1e-4};
  EXPECT_EQ(host_rate_of_table(measured, 512, kLarge, tensor::HostPath::zero_copy).bytes_per_second,
            30e6 * 512);
  EXPECT_EQ(host_rate_of_table(measured, 512, kLarge, tensor::HostPath::zero_copy).start_seconds, 0);
  EXPECT_EQ(host_rate_of_table(measured, 512, kLarge, tensor::HostPath::threads).bytes_per_second, 40e9);
  EXPECT_EQ(host_rate_of_table(measured, 512, kSmall, tensor::HostPath::threads).start_seconds, 1e-4);
  EXPECT_EQ(host_rate_of_table(measured, 512, kSmall).bytes_per_second, 50e9);
  EXPECT_EQ(host_rate_of_table({{.host = 50e9}}, 512, kLarge, tensor::HostPath::threads).bytes_per_second,
            30e6 * 512);
}

}  // namespace
}  // namespace strata::placement
