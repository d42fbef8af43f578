// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "strata/util/text.hpp"

namespace strata {
namespace {

TEST(Wrapped, BreaksBetweenWordsAndIndentsWhatFollows) {
  EXPECT_EQ(wrapped("one two three", 2, 9), "one two\n  three\n");
  EXPECT_EQ(wrapped("one two three", 2, 80), "one two three\n");
  EXPECT_EQ(wrapped("", 2, 80), "\n");
}

TEST(Wrapped, LeavesWordsWholeThatAreLongerThanALine) {
  EXPECT_EQ(wrapped("a /long/path b", 1, 6), "a\n /long/path\n b\n");
  EXPECT_EQ(wrapped("x {aa,bb,cc,dd}", 1, 8), "x\n {aa,bb,\n cc,dd}\n");
}

}  // namespace
}  // namespace strata
