// SPDX-License-Identifier: Apache-2.0
// Cases that are skipped: ctest expects their program's exit code and its line about them.
#include <gtest/gtest.h>

namespace {

TEST(Skips, AlwaysHere) { GTEST_SKIP() << "needs what no machine has"; }
TEST(Skips, AlwaysThere) { GTEST_SKIP() << "needs what no machine has"; }
TEST(Skips, Never) {}
TEST(Skips, Fails) { FAIL(); }

}  // namespace
