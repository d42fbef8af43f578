// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>

#include "strata/train/metrics.hpp"

namespace strata::train {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Scores with_auc(double roc_auc) { return {.nodes = 10, .accuracy = 0.5, .roc_auc = roc_auc}; }

TEST(Scores, BeatsWithTheHigherMetric) {
  EXPECT_TRUE(with_auc(0.8).beats(with_auc(0.7), Metric::roc_auc));
  EXPECT_FALSE(with_auc(0.7).beats(with_auc(0.8), Metric::roc_auc));
  EXPECT_FALSE(with_auc(0.8).beats(with_auc(0.8), Metric::roc_auc));
  EXPECT_FALSE(with_auc(0.8).beats(with_auc(0.7), Metric::accuracy));
}

TEST(Scores, ANumberBeatsNaNWhichBeatsNothing) {
  EXPECT_TRUE(with_auc(0.0).beats(with_auc(kNaN), Metric::roc_auc));
  EXPECT_FALSE(with_auc(kNaN).beats(with_auc(0.0), Metric::roc_auc));
  EXPECT_FALSE(with_auc(kNaN).beats(with_auc(kNaN), Metric::roc_auc));
}

TEST(Scores, TheLatestBeatsWithoutValidationNodes) {
  const Scores none{.nodes = 0, .roc_auc = kNaN};
  for (const auto& [metric, name] : enum_names<Metric>) EXPECT_TRUE(none.beats(none, metric)) << name;
}

}  // namespace
}  // namespace strata::train
