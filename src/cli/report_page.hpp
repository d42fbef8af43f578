// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace strata::cli {

/// Has strata-report draw finished runs on one page. Warns and does nothing more where that fails, for
/// example because there is no Python: the runs are complete all the same.
void write_report_page(const std::vector<std::string>& runs, const std::filesystem::path& page);

/// Tells how the page of a run that was stopped is drawn. Nothing is drawn then: whoever stopped it waits.
void tell_of_missing_page(const std::string& run);

}  // namespace strata::cli
