// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <vector>

namespace strata::graph {

/// The files in a folder and in those below it, also where links lead there, by the names that they have in
/// it. A folder that several links lead to is looked at once. Of a file: itself. What cannot be looked at is
/// left out.
std::vector<std::filesystem::path> files_below(const std::filesystem::path& place);

}  // namespace strata::graph
