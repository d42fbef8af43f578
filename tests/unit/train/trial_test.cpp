// SPDX-License-Identifier: Apache-2.0
#include "tuning/trial.hpp"

#include <gtest/gtest.h>

#include "tuning/loader_threads.hpp"

namespace strata::train {
namespace {

/// Steps until it is decided; `seconds(setting, step)` is what a step takes.
template <typename Seconds>
int steps_until_decided(Trial& trial, Seconds&& seconds) {
  int steps = 0;
  for (; !trial.decided() && steps < 10'000; ++steps) trial.add(seconds(trial.setting(), steps));
  return steps;
}

TEST(TrialTest, ChoosesTheFastest) {
  Trial trial({.settings = 3, .warm_up = 2, .steps = 5, .rounds = 2});
  EXPECT_EQ(trial.setting(), 0);
  EXPECT_EQ(steps_until_decided(trial, [](int setting, int) { return setting == 2 ? 0.8 : 1.0; }), 3 * 2 * 7);
  EXPECT_EQ(trial.setting(), 2);
  EXPECT_EQ(trial.medians(), (std::vector<double>{1.0, 1.0, 0.8}));
}

TEST(TrialTest, KeepsTheFirstWithinTheMargin) {
  Trial trial({.settings = 2, .margin = 0.02});
  steps_until_decided(trial, [](int setting, int) { return setting == 1 ? 0.99 : 1.0; });
  EXPECT_EQ(trial.setting(), 0);
}

TEST(TrialTest, DoesNotCountTheFirstStepsOfAWindowNorSingleSlowOnes) {
  Trial trial({.settings = 2, .warm_up = 3, .steps = 7, .rounds = 1});
  steps_until_decided(trial, [](int setting, int step) {
    const int in_window = step % 10;
    if (in_window < 3) return setting == 1 ? 100.0 : 0.0;
    if (in_window == 5) return 50.0;
    return setting == 1 ? 1.0 : 2.0;
  });
  EXPECT_EQ(trial.medians(), (std::vector<double>{2.0, 1.0}));
  EXPECT_EQ(trial.setting(), 1);
}

TEST(TrialTest, BeginsAWindowAnewAfterAnInterruption) {
  Trial trial({.settings = 2, .warm_up = 1, .steps = 3, .rounds = 1});
  for (int i = 0; i < 3; ++i) trial.add(9);  // one short of a window
  trial.interrupt();
  EXPECT_EQ(trial.setting(), 0);
  EXPECT_EQ(steps_until_decided(trial, [](int setting, int) { return setting == 1 ? 2.0 : 1.0; }), 8);
  EXPECT_EQ(trial.medians(), (std::vector<double>{1.0, 2.0}));
}

TEST(TrialTest, DecidesByWhatTheRanksAgreeOn) {
  int calls = 0;
  Trial trial({.settings = 2, .agree = [&](std::vector<double>& medians) {
                 ++calls;
                 medians = {3.0, 1.0};
               }});
  steps_until_decided(trial, [](int setting, int) { return setting == 1 ? 2.0 : 1.0; });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(trial.setting(), 1);
}

TEST(TrialTest, HasNothingToTryWithOneSetting) { EXPECT_TRUE(Trial({.settings = 1}).decided()); }

TEST(LoaderThreadsTest, TriesHalvesOfTheCores) {
  EXPECT_EQ(LoaderThreads::candidates(1, 1), (std::vector<int>{1}));
  EXPECT_EQ(LoaderThreads::candidates(6, 6), (std::vector<int>{6, 3, 1}));
  EXPECT_EQ(LoaderThreads::candidates(16, 16), (std::vector<int>{16, 8, 4, 2, 1}));
  EXPECT_EQ(LoaderThreads::candidates(6, 8), (std::vector<int>{6, 3, 1, 1})) << "as many as on every rank";
}

}  // namespace
}  // namespace strata::train
