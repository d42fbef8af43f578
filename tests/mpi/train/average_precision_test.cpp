// SPDX-License-Identifier: Apache-2.0
#include "task/average_precision.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "support/mpi_world.hpp"

namespace strata::train {
namespace {

TEST(AveragePrecision, IsThatOfAllRanks) {
  const comm::Communicator& world = test::world().communicator();
  std::mt19937 random(7);
  ClassScores mine, all;
  for (int i = 0; i < 400; ++i) {
    const auto score = static_cast<float>(random() % 50);  // many are equal
    const bool positive = random() % 60 < static_cast<unsigned>(score);
    const auto add = [&](ClassScores& to) { (positive ? to.positives : to.negatives).push_back(score); };
    add(all);
    if (i % world.size() == world.rank()) add(mine);
  }
  double sum = 0;
  for (const float score : all.positives) {
    const auto higher = [&](float other) { return other >= score; };
    const auto right = static_cast<double>(std::ranges::count_if(all.positives, higher));
    sum += right / (right + static_cast<double>(std::ranges::count_if(all.negatives, higher)));
  }
  EXPECT_NEAR(average_precision(mine, world), sum / static_cast<double>(all.positives.size()), 1e-12);
  ClassScores none;
  EXPECT_TRUE(std::isnan(average_precision(none, world)));
}

}  // namespace
}  // namespace strata::train
