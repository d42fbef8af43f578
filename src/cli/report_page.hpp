// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace strata::cli {

/// Has strata-report draw finished runs on one page. Warns and does nothing more where that fails, for
/// example because there is no Python: the runs are complete all the same.
void write_report_page(const std::vector<std::string>& runs, const std::filesystem::path& page);

}  // namespace strata::cli
