// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "strata/util/log.hpp"

namespace strata {
namespace {

TEST(BarWatch, TellsTheBarsThatAreThere) {
  const BarWatch watch;
  EXPECT_TRUE(watch.bars().empty());
  auto first = std::make_unique<ProgressBar>("partition", 100, "nodes");
  ProgressBar second("epoch 1/3", 50, "seeds");
  first->advance(30);
  first->advance();
  const std::vector<BarState> both = watch.bars();
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0].title, "partition");
  EXPECT_EQ(both[0].unit, "nodes");
  EXPECT_EQ(both[0].done, 31);
  EXPECT_EQ(both[0].total, 100);
  EXPECT_NE(both[0].number, both[1].number);
  first.reset();
  ASSERT_EQ(watch.bars().size(), 1u);
  EXPECT_EQ(watch.bars()[0].number, both[1].number);
}

TEST(BarWatch, TellsTheWordsOfABarAndTheTimeThatIsLeft) {
  const BarWatch watch;
  ProgressBar bar(
      "epoch 1/3", 50, "seeds", true,
      {.words = [] { return "loss 0.5"; }, .seconds_left = [](std::int64_t done) { return done; }});
  bar.advance(3);
  EXPECT_EQ(watch.bars()[0].words, "");  // not at every step
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  bar.advance(4);
  EXPECT_EQ(watch.bars()[0].words, "loss 0.5  7.0 s left");
}

TEST(BarWatch, SeesOnlyBarsThatBeganMeanwhileAndAreEnabled) {
  ProgressBar earlier("earlier", 10, "nodes");
  const BarWatch watch;
  const ProgressBar quiet("quiet", 10, "nodes", false);
  EXPECT_TRUE(watch.bars().empty());
}

TEST(BarText, HasABarWhereThereIsRoom) {
  EXPECT_EQ(
      (BarText{.title = "partition", .share = 0.5, .rate = "1.2M nodes/s", .left = "3.0 s left"}.line()),
      "partition      [############............]  50 %  1.2M nodes/s  3.0 s left");
}

TEST(BarText, KeepsLossScoreRateAndTimeInALineOf79Characters) {
  const BarText text{.title = "epoch 399/400",
                     .words = "loss 0.8121  best 0.7340",
                     .share = 0.41,
                     .rate = "123.1k seeds/s",
                     .left = "11:03:22 left"};
  EXPECT_EQ(text.line(), "epoch 399/400  41 %  loss 0.8121  best 0.7340  123.1k seeds/s  11:03:22 left");
  EXPECT_LE(text.line().size(), 79u);
  BarText shorter = text;
  shorter.title = "epoch 9/10";
  shorter.left = "22.0 s left";
  EXPECT_EQ(shorter.line(),
            "epoch 9/10 [##...]  41 %  loss 0.8121  best 0.7340  123.1k seeds/s  22.0 s left");
}

TEST(BarText, GivesUpTheWordsLast) {
  const BarText text{.title = "epoch 1/2",
                     .words = std::string(60, 'w'),
                     .share = 1,
                     .rate = "1.0 B/s",
                     .left = "0 us left"};
  EXPECT_EQ(text.line(), "epoch 1/2 100 %  1.0 B/s  0 us left");
}

TEST(Announcements, StandWhereBarsAreWhileThereIsNone) {
  choose_progress(ProgressStyle::bar);
  testing::internal::CaptureStderr();
  {
    const Announcements announcements;
    announce("reading \xc3\xa4.csv");
    {
      ProgressBar bar("sort", 2, "rows");
      std::this_thread::sleep_for(std::chrono::milliseconds(150));  // bars are drawn ten times per second
      bar.advance();
    }
    announce(std::string(74, 'x') + "\xc3\xa4");
  }
  const ProgressBar later("later", 1, "rows");
  const std::string shown = testing::internal::GetCapturedStderr();
  choose_progress(ProgressStyle::automatic);
  const std::string first = "\r\x1b[K\rreading \xc3\xa4.csv ...\x1b[K";
  EXPECT_TRUE(shown.starts_with(first.substr(4))) << shown;
  EXPECT_NE(shown.find(first, 1), std::string::npos) << "it is not there again after the bar: " << shown;
  EXPECT_TRUE(shown.ends_with("\r" + std::string(74, 'x') + " ...\x1b[K\r\x1b[K")) << shown;
}

TEST(Announcements, AreLinesWithoutATerminal) {
  choose_progress(ProgressStyle::lines);
  testing::internal::CaptureStderr();
  {
    const Announcements announcements;
    announce("reading a.csv");
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "reading a.csv ...\n");
  choose_progress(ProgressStyle::automatic);
}

TEST(ProgressBar, TellsWhenTheLongerWorkEnds) {
  choose_progress(ProgressStyle::bar);
  testing::internal::CaptureStderr();
  {
    ProgressBar bar(
        "epoch 1/3", 100, "seeds", true,
        {.words = [] { return "loss 1.0000"; },
         .seconds_left = [](std::int64_t done) { return 3.0 * static_cast<double>(300 - done); }});
    std::this_thread::sleep_for(std::chrono::milliseconds(150));  // bars are drawn ten times per second
    bar.advance(50);
  }
  const std::string shown = testing::internal::GetCapturedStderr();
  choose_progress(ProgressStyle::automatic);
  EXPECT_NE(shown.find(" 50 %  loss 1.0000  "), std::string::npos) << shown;
  EXPECT_NE(shown.find("12:30 left"), std::string::npos) << shown;
}

}  // namespace
}  // namespace strata
