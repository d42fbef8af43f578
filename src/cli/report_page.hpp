// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace strata::cli {

inline constexpr const char* kReportPage = "report.html";

/// Has strata-report draw finished runs on one page. Warns and does nothing more where that fails, for
/// example because there is no Python: the runs are complete all the same.
void write_report_page(const std::vector<std::string>& runs, const std::filesystem::path& page);

/// The page of one run, report.html in its folder. Of a run that was stopped it only tells how the page is
/// drawn, because whoever stopped it waits.
void report_run(const std::string& run, bool stopped);

}  // namespace strata::cli
