// SPDX-License-Identifier: Apache-2.0
#include "choosers/choice_rules.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace strata::sampling {
namespace {

std::vector<std::uint64_t> words() {
  constexpr std::uint64_t kLinear = 0x4AFB0CCC06219B7Cull;
  std::vector<std::uint64_t> all = {0,          1,          2,           1000,        ~0ull,
                                    ~0ull - 1,  1ull << 63, kLinear,     kLinear - 1, kLinear + 1,
                                    ~0ull >> 1, 1ull << 40, ~0ull << 40, ~0ull << 12};
  for (std::uint64_t i = 0; i < 200000; ++i) all.push_back(keyed_word(7, i) >> (i % 60));
  return all;
}

TEST(ExponentialVariate, IsTheLogarithm) {
  for (const std::uint64_t word : words()) {
    // 1 - v from the integer: near 1, v itself has no bits left for it.
    const long double v = static_cast<long double>(word | 1) * 0x1.0p-64L,
                      rest = static_cast<long double>(~word | 1) * 0x1.0p-64L;
    const long double expected = v < 0.25L ? -std::log1p(-v) : -std::log(rest);
    const float value = exponential_variate(word);
    ASSERT_GT(value, 0);
    ASSERT_NEAR(value / static_cast<double>(expected), 1, 4e-7) << word;
  }
}

TEST(ExponentialVariate, HasTheMomentsOfItsDistribution) {
  constexpr int kDraws = 1 << 20;
  double sum = 0, squares = 0, above_three = 0;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    const double value = exponential_variate(keyed_word(3, i));
    sum += value;
    squares += value * value;
    above_three += value > 3;
  }
  EXPECT_NEAR(sum / kDraws, 1, 5 / std::sqrt(kDraws));
  EXPECT_NEAR(squares / kDraws, 2, 5 * std::sqrt(20.0 / kDraws));
  EXPECT_NEAR(above_three / kDraws, std::exp(-3), 5 * std::sqrt(0.05 / kDraws));
}

TEST(Arrival, OrdersByTheQuotientForEveryWeight) {
  const float weights[] = {std::numeric_limits<float>::denorm_min(),
                           std::numeric_limits<float>::min(),
                           std::numeric_limits<float>::max(),
                           0x1.8p-140f,
                           1.0f,
                           0.3f,
                           1e20f,
                           7.0f};
  const std::vector<std::uint64_t> all = words();
  std::uint64_t last = 0;
  long double last_quotient = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const float weight = weights[i % std::size(weights)];
    const std::uint64_t here = arrival(all[i], weight, static_cast<std::uint32_t>(i));
    EXPECT_LT(here, kNeverArrives);
    EXPECT_EQ(here & 0xFFFFFFFFu, i);
    const long double quotient = static_cast<long double>(exponential_variate(all[i])) / weight;
    ASSERT_NEAR(static_cast<double>(quotient_of(here) / quotient), 1, 1e-7) << i;
    if (i > 0 && std::abs(quotient / last_quotient - 1) > 1e-6L) {
      ASSERT_EQ(here < last, quotient < last_quotient) << i;
    }
    last = here;
    last_quotient = quotient;
  }
  EXPECT_LT(arrival(5, 1, 3), arrival(5, 1, 4)) << "the position breaks ties";
}

TEST(WholeWeights, KeepProportionsAndSums) {
  const std::vector<float> tiny = {0x1.0p-149f, 0x1.8p-148f, 0x1.0p-147f}, one = {3.5f},
                           huge = {std::numeric_limits<float>::max(), std::numeric_limits<float>::max()},
                           mixed = {0, 1e-3f, 2, 0.7f, 1e4f, 0, 12.5f};
  for (const auto& weights : {tiny, one, huge, mixed}) {
    const WholeWeights whole(std::ranges::max(weights), static_cast<std::uint32_t>(weights.size()));
    long double sum = 0, whole_sum = 0;
    for (const float w : weights) {
      sum += w;
      whole_sum += static_cast<long double>(whole(w));
    }
    EXPECT_LT(whole_sum, 0x1.0p63L);
    EXPECT_GE(whole_sum, 0x1.0p58L);
    for (const float w : weights)
      EXPECT_NEAR(static_cast<double>(static_cast<long double>(whole(w)) / whole_sum),
                  static_cast<double>(w / sum), 1e-12);
  }
  const WholeWeights long_list(1.0f, ~std::uint32_t{0});
  EXPECT_LT(static_cast<long double>(long_list(1.0f)) * ~std::uint32_t{0}, 0x1.0p63L);
  EXPECT_EQ(WholeWeights(1e30f, 2)(1e-30f), 0u);
}

TEST(LaborLimit, IsTheQuotientOf64Bits) {
  for (const std::uint32_t degree : {2u, 3u, 7u, 1000u, 123456789u, ~0u}) {
    for (const std::uint32_t fanout : {0u, 1u, degree / 2, degree - 1}) {
      __extension__ using Wide = unsigned __int128;
      const auto expected = static_cast<std::uint64_t>((static_cast<Wide>(fanout) << 64) / degree);
      EXPECT_EQ(LaborRule::limit(fanout, degree), expected) << fanout << " of " << degree;
    }
  }
}

TEST(LaborRule, KeysByLayerUnlessLayersDepend) {
  const BatchKey key{.seed = 3, .epoch = 1, .step = 9};
  EXPECT_EQ(LaborRule(key, 0, true).key, LaborRule(key, 2, true).key);
  EXPECT_NE(LaborRule(key, 0, false).key, LaborRule(key, 2, false).key);
  EXPECT_NE(LaborRule(key, 0, true).key, LaborRule({.seed = 3, .epoch = 1, .step = 8}, 0, true).key);
}

TEST(Below, ReachesBothEnds) {
  EXPECT_EQ(below(0, 10), 0u);
  EXPECT_EQ(below(~0ull, 10), 9u);
  EXPECT_EQ(below(~0ull, 1), 0u);
  EXPECT_EQ(below(1ull << 63, 10), 5u);
}

}  // namespace
}  // namespace strata::sampling
