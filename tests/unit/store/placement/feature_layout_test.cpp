// SPDX-License-Identifier: Apache-2.0
#include "placement/feature_layout.hpp"

#include <gtest/gtest.h>

namespace strata::store {
namespace {

TEST(LayoutWithin, PadsRowsOnlyIfAllOfThemHaveRoomThen) {
  const placement::LayoutRates rates{.as_they_lie = 30, .aligned = 40, .padded = 50};
  const FeatureShape features{.cols = 40, .dtype = DType::f32, .part_rows = {300, 0, 100}};
  constexpr std::int64_t kPadded = 400 * 256;
  EXPECT_TRUE(layout_within(rates, features, kPadded).padded);
  EXPECT_FALSE(layout_within(rates, features, kPadded - 1).padded);
  EXPECT_TRUE(layout_within(rates, features, kPadded - 1).aligned_reads);
}

}  // namespace
}  // namespace strata::store
