// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "strata/train/task.hpp"

namespace strata::train {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Scores with_auc(double roc_auc) {
  return {.nodes = 10,
          .values = {{.name = "accuracy", .value = 0.5},
                     {.name = "roc_auc", .value = roc_auc},
                     {.name = "error", .value = roc_auc, .higher_is_better = false}}};
}

TEST(Scores, BeatsWithTheHigherMetric) {
  EXPECT_TRUE(with_auc(0.8).beats(with_auc(0.7), "roc_auc"));
  EXPECT_FALSE(with_auc(0.7).beats(with_auc(0.8), "roc_auc"));
  EXPECT_FALSE(with_auc(0.8).beats(with_auc(0.8), "roc_auc"));
  EXPECT_FALSE(with_auc(0.8).beats(with_auc(0.7), "accuracy"));
}

TEST(Scores, ANumberBeatsNaNWhichBeatsNothing) {
  EXPECT_TRUE(with_auc(0.0).beats(with_auc(kNaN), "roc_auc"));
  EXPECT_FALSE(with_auc(kNaN).beats(with_auc(0.0), "roc_auc"));
  EXPECT_FALSE(with_auc(kNaN).beats(with_auc(kNaN), "roc_auc"));
}

TEST(Scores, BeatsWithTheLowerError) {
  EXPECT_FALSE(with_auc(0.8).beats(with_auc(0.7), "error"));
  EXPECT_TRUE(with_auc(0.7).beats(with_auc(0.8), "error"));
  EXPECT_TRUE(with_auc(0.8).beats(with_auc(kNaN), "error"));
}

TEST(Scores, TheLatestBeatsWithoutValidationNodes) {
  const Scores none{.nodes = 0, .values = with_auc(kNaN).values};
  for (const Score& score : none.values) EXPECT_TRUE(none.beats(none, score.name)) << score.name;
}

TEST(Scores, HaveTheValueOfEachName) {
  EXPECT_EQ(with_auc(0.25).of("roc_auc"), 0.25);
  EXPECT_EQ(with_auc(0.25).of("accuracy"), 0.5);
  EXPECT_TRUE(std::isnan(with_auc(0.25).of("mrr")));
}

}  // namespace
}  // namespace strata::train
