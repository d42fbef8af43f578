// SPDX-License-Identifier: Apache-2.0
#include "support/skipped_cases.hpp"

#include <gtest/gtest.h>

#include <map>
#include <sstream>

namespace strata::test {
namespace {

std::string reason_of(const testing::TestResult& result) {
  for (int i = 0; i < result.total_part_count(); ++i) {
    const testing::TestPartResult& part = result.GetTestPartResult(i);
    if (!part.skipped()) continue;
    const std::string text = part.message();
    const std::string first_line = text.substr(0, text.find('\n'));
    if (!first_line.empty()) return first_line;
  }
  return "no reason given";
}

}  // namespace

bool every_case_skipped() {
  const testing::UnitTest& run = *testing::UnitTest::GetInstance();
  return run.test_to_run_count() > 0 && run.skipped_test_count() == run.test_to_run_count();
}

std::string skipped_cases() {
  const testing::UnitTest& run = *testing::UnitTest::GetInstance();
  std::map<std::string, int> counts;
  for (int s = 0; s < run.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *run.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const testing::TestInfo& test = *suite.GetTestInfo(t);
      if (test.should_run() && test.result()->Skipped()) ++counts[reason_of(*test.result())];
    }
  }
  std::ostringstream lines;
  for (const auto& [reason, count] : counts)
    lines << "-- skipped: " << count << " of " << run.test_to_run_count() << " cases: " << reason << '\n';
  return lines.str();
}

}  // namespace strata::test
