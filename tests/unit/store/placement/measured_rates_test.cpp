// SPDX-License-Identifier: Apache-2.0
#include "placement/measured_rates.hpp"

#include <gtest/gtest.h>

#include "unit/store/placement/small_graph.hpp"

namespace strata::store {
namespace {

using namespace small_graph;

TEST(RatesOfTable, AreThoseOfItsRowLength) {
  const placement::PathRates rates = rates_of_table(kMeasured, {.row_bytes = 8, .table_bytes = 800});
  EXPECT_EQ(rates.local, 800);
  EXPECT_EQ(rates.peer, 80);
  EXPECT_EQ(rates.host, 8);
  EXPECT_EQ(rates.host_start, 0);
}

TEST(RatesOfTable, AreZeroForALengthThatWasNotMeasured) {
  const placement::PathRates rates = rates_of_table(kMeasured, {.row_bytes = 12, .table_bytes = 1200});
  EXPECT_EQ(rates.local, 0);
  EXPECT_EQ(rates.peer, 0);
  EXPECT_EQ(rates.host, 0);
}

TEST(RatesOfTable, HaveTheHostRateOfItsPath) {
  std::vector<MeasuredRates> measured = kMeasured;
  measured[1].paths.host_threads = 30;
  measured[1].paths.host_start = 0.5;
  const placement::PathRates rates =
      rates_of_table(measured, {.row_bytes = 8, .table_bytes = 800, .host_path = tensor::HostPath::threads});
  EXPECT_EQ(rates.local, 800);
  EXPECT_EQ(rates.host, 30);
  EXPECT_EQ(rates.host_start, 0.5);
}

}  // namespace
}  // namespace strata::store
