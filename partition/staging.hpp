// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>

#include "strata/partition/stop.hpp"

namespace strata::partition {

/// A temporary directory beside the output, which becomes the output in one step. An owner: removed unless
/// published.
class StagingDirectory {
 public:
  /// Throws InputError as refuse_output does.
  StagingDirectory(std::filesystem::path output, bool force, StopFlag& stop);
  ~StagingDirectory();
  StagingDirectory(const StagingDirectory&) = delete;
  StagingDirectory& operator=(const StagingDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Makes the contents the output; what was there before is removed after. All files must be on disk
  /// already.
  void publish();

 private:
  void replace_in_two_steps();

  std::filesystem::path output_, path_;
  bool force_;
  StopFlag& stop_;
};

/// Throws InputError where `output` cannot become a partition directory: it exists and `force` is not given,
/// or holds files that are none of a partition; its parent does not exist. Gives parts their name back that a
/// build set aside when it was killed.
void refuse_output(const std::filesystem::path& output, bool force);

}  // namespace strata::partition
