// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace strata::test {

/// Exit code of a test program whose every case was skipped: the SKIP_RETURN_CODE of its ctest.
constexpr int kSkippedExitCode = 77;

/// Was every case of this run skipped? After RUN_ALL_TESTS().
bool every_case_skipped();

/// A line per reason for which cases were skipped, empty where none was. run_ctest.py reads them:
///
///     -- skipped: 12 of 14 cases: needs a GPU
std::string skipped_cases();

}  // namespace strata::test
