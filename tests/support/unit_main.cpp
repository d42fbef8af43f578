// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdio>

#include "support/skipped_cases.hpp"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const int result = RUN_ALL_TESTS();
  std::fputs(strata::test::skipped_cases().c_str(), stdout);
  return result == 0 && strata::test::every_case_skipped() ? strata::test::kSkippedExitCode : result;
}
