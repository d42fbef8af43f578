// SPDX-License-Identifier: Apache-2.0
#include "strata/util/progress.hpp"

#include <gtest/gtest.h>

#include <memory>

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

TEST(BarWatch, SeesOnlyBarsThatBeganMeanwhileAndAreEnabled) {
  ProgressBar earlier("earlier", 10, "nodes");
  const BarWatch watch;
  const ProgressBar quiet("quiet", 10, "nodes", false);
  EXPECT_TRUE(watch.bars().empty());
}

}  // namespace
}  // namespace strata
