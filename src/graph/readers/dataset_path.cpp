// SPDX-License-Identifier: Apache-2.0
#include "readers/dataset_path.hpp"

#include <algorithm>

namespace strata::graph {
namespace {

namespace fs = std::filesystem;

bool has_dots(const fs::path& path) { return std::ranges::find(path, "..") != path.end(); }

/// `path` from `folder` on, if it begins with it.
std::optional<fs::path> below(const fs::path& folder, const fs::path& path) {
  const fs::path relative = path.lexically_relative(folder);
  if (relative.empty() || has_dots(relative)) return std::nullopt;
  return relative;
}

std::optional<fs::path> in_moved_folder(const fs::path& folder, const fs::path& path) {
  std::error_code code;
  if (fs::exists(path, code)) return std::nullopt;
  for (auto first = std::next(path.begin()); first != path.end(); ++first) {
    fs::path end;
    for (auto part = first; part != path.end(); ++part) end /= *part;
    if (fs::exists(folder / end, code)) return folder / end;
  }
  return std::nullopt;
}

}  // namespace

std::optional<fs::path> path_in_dataset(const fs::path& folder, const std::string& stated,
                                        bool allow_outside) {
  const fs::path path(stated);
  const bool dots = has_dots(path);
  if (path.is_relative() || dots) {
    if (allow_outside || (path.is_relative() && !dots)) return folder / path;
    return std::nullopt;
  }
  std::error_code code;
  const fs::path as_given = (fs::absolute(folder, code) / "").lexically_normal().parent_path();
  const fs::path real = fs::weakly_canonical(folder, code);
  for (const fs::path& base : {as_given, real})
    for (const fs::path& file : {path.lexically_normal(), fs::weakly_canonical(path, code)})
      if (const auto inside = below(base, file)) return folder / *inside;
  if (auto moved = in_moved_folder(folder, path)) return moved;
  return allow_outside ? std::optional(path) : std::nullopt;
}

}  // namespace strata::graph
