// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace strata {

/// Runs strata-report to draw folders of runs, or the facts about a partition, on one page. Returns why there
/// is no page, for example because there is no Python; empty if there is one.
std::string draw_report(const std::vector<std::string>& sources, const std::filesystem::path& page);

}  // namespace strata
