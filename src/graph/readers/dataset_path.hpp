// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <optional>
#include <string>

namespace strata::graph {

/// The path of a file that a dataset's description names; none if it is outside of its folder, unless
/// `allow_outside`.
///
/// Relative paths stay below the folder by their text. Absolute ones lead into it, or name what is not there
/// any more: in a set that was moved, the longest end of such a path that exists below the folder is meant.
/// Links in the folder are followed, because its owner made them.
std::optional<std::filesystem::path> path_in_dataset(const std::filesystem::path& folder,
                                                     const std::string& stated, bool allow_outside);

}  // namespace strata::graph
