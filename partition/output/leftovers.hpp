// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>

namespace strata::partition {

/// Marks the temporary directory of a build as being written: a file beside it that is locked while the
/// process lives, also seen by other hosts where the file system passes locks on. An owner of the file and
/// its lock.
class BuildMark {
 public:
  explicit BuildMark(const std::filesystem::path& directory);
  ~BuildMark();
  BuildMark(const BuildMark&) = delete;
  BuildMark& operator=(const BuildMark&) = delete;

 private:
  std::filesystem::path file_;
  int descriptor_ = -1;
};

/// Removes what killed builds of `output` left beside it, and names it in the log. What another build may
/// still write is left alone and named, too.
void remove_leftovers(const std::filesystem::path& output);

}  // namespace strata::partition
