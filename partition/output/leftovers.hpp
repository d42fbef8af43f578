// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>

namespace strata::partition {

/// Marks the temporary directory of a build as being written: a file beside it that names this host and is
/// locked while the process lives. Other hosts cannot rely on the lock, which may be local to this one. An
/// owner of the file and its lock.
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

/// Removes the leftovers of killed builds beside `output`, and names them in the log. Files that another
/// build may still write are left alone and named, too.
void remove_leftovers(const std::filesystem::path& output);

}  // namespace strata::partition
