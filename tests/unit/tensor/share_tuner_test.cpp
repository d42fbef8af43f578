// SPDX-License-Identifier: Apache-2.0
#include "host_path/share_tuner.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace strata::tensor {
namespace {

/// Two paths of known rates, in rows a second, behind a link that both share.
struct Paths {
  double threads, kernel, link;

  ShareTuner::Trial run(double share) const {
    constexpr Count kRows = 1'000'000;
    const auto for_threads = static_cast<Count>(share * kRows);
    const double whole = kRows / link;
    const auto side = [&](Count rows, double rate) {
      return ShareTuner::Side{rows, rows == 0 ? 0 : std::max(static_cast<double>(rows) / rate, whole)};
    };
    return {
        .share = share, .threads = side(for_threads, threads), .kernel = side(kRows - for_threads, kernel)};
  }
  double rate(double share) const { return run(share).rate(); }
};

ShareTuner tuned(const Paths& paths) {
  ShareTuner tuner;
  constexpr int kEnough = 21;
  for (int job = 0; job < kEnough; ++job) tuner.add(paths.run(tuner.share()));
  return tuner;
}

void expect_near_the_best(const Paths& paths) {
  SCOPED_TRACE(testing::Message() << paths.threads << " " << paths.kernel << " " << paths.link);
  const ShareTuner tuner = tuned(paths);
  ASSERT_TRUE(tuner.settled());
  double best = 0;
  for (int percent = 0; percent <= 100; ++percent) best = std::max(best, paths.rate(percent / 100.0));
  EXPECT_GE(paths.rate(tuner.share()), 0.95 * best) << tuner.share();
  EXPECT_EQ(tuner.best().share, tuner.share());
}

constexpr double kNoLimit = 1e18;

TEST(ShareTuner, LetsBothSidesEndTogether) {
  const ShareTuner tuner = tuned({.threads = 200e6, .kernel = 50e6, .link = kNoLimit});
  EXPECT_NEAR(tuner.share(), 0.8, 0.01);
}

TEST(ShareTuner, FindsTheBestShareOfManyPaths) {
  for (const double threads : {1e6, 30e6, 200e6, 800e6}) {
    for (const double kernel : {1e6, 30e6, 200e6, 800e6}) {
      for (const double link : {kNoLimit, 100e6}) expect_near_the_best({threads, kernel, link});
    }
  }
}

TEST(ShareTuner, LeavesOneSideAloneWhereTheOtherHarms) {
  /// The kernel slows the threads down whenever it reads at all.
  const auto run = [](double share) {
    ShareTuner::Trial trial = Paths{.threads = 100e6, .kernel = 20e6, .link = kNoLimit}.run(share);
    if (trial.kernel.rows > 0) trial.threads.seconds *= 3;
    return trial;
  };
  ShareTuner tuner;
  while (!tuner.settled()) tuner.add(run(tuner.share()));
  EXPECT_EQ(tuner.share(), 1);
}

TEST(ShareTuner, StaysWhenSettled) {
  ShareTuner tuner = tuned({.threads = 200e6, .kernel = 50e6, .link = kNoLimit});
  const double share = tuner.share();
  tuner.add(Paths{.threads = 1e6, .kernel = 50e6, .link = kNoLimit}.run(share));
  EXPECT_EQ(tuner.share(), share);
}

TEST(ShareTuner, IsNotMisledByOneSlowJob) {
  // The threads alone are best by far, but one of their jobs is held up.
  const Paths paths{.threads = 300e6, .kernel = 30e6, .link = kNoLimit};
  ShareTuner tuner;
  bool held_up = false;
  while (!tuner.settled()) {
    ShareTuner::Trial trial = paths.run(tuner.share());
    if (trial.kernel.rows > 0) trial.threads.seconds *= 2;
    if (trial.share == 1 && !held_up) held_up = true, trial.threads.seconds *= 10;
    tuner.add(trial);
  }
  EXPECT_TRUE(held_up);
  EXPECT_EQ(tuner.share(), 1);
}

TEST(ShareTuner, IsNotMisledByOneFastJob) {
  ShareTuner tuner;
  const Paths paths{.threads = 200e6, .kernel = 50e6, .link = kNoLimit};
  for (int job = 0; !tuner.settled(); ++job) {
    ShareTuner::Trial trial = paths.run(tuner.share());
    if (trial.share == 0 && job < 12) trial.kernel.seconds /= 5.5;  // faster than the best, once
    tuner.add(trial);
  }
  EXPECT_NEAR(tuner.share(), 0.8, 0.01);
}

}  // namespace
}  // namespace strata::tensor
