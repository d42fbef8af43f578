// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <string>

#include "strata/partition/build.hpp"

namespace strata::partition {

/// The text that a person sees after a build: what was cleaned, what was cut, and how long each phase took.
std::string report_text(const BuildReport& report, const std::filesystem::path& output);

/// The JSON of info_json() about the parts, with their place, what was cleaned, and the cost. A detailed
/// report also has "edges_between" and "degrees", as in BuildReport.
std::string report_json(const BuildReport& report, const std::filesystem::path& output);

}  // namespace strata::partition
