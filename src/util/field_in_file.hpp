// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace strata {

/// The number after `name` in a file of lines "name number" or "name: number kB"; none if the file or such a
/// line is missing.
std::optional<std::int64_t> field_in_file(const std::filesystem::path& path, std::string_view name);

}  // namespace strata
