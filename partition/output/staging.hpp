// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <optional>

#include "output/leftovers.hpp"
#include "strata/partition/build.hpp"

namespace strata::partition {

/// The name of an output in messages, and what may happen to one that exists.
struct Existing {
  const char* name = "--output ";  ///< before the path
  bool replace = false;            ///< with --force
  bool can_replace = true;         ///< whether there is --force
};

/// A temporary directory beside the output, which becomes the output in one step. An owner: removed unless
/// published.
class StagingDirectory {
 public:
  /// Removes the leftovers of killed builds. Throws InputError as refuse_output does.
  StagingDirectory(std::filesystem::path output, Existing existing, StopFlag& stop);
  ~StagingDirectory();
  StagingDirectory(const StagingDirectory&) = delete;
  StagingDirectory& operator=(const StagingDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Makes the contents the output, and then removes what was there before. All files must already be on
  /// disk.
  void publish();

 private:
  void replace_in_two_steps();

  std::filesystem::path output_, path_;
  std::optional<BuildMark> mark_;
  Existing existing_;
  StopFlag& stop_;
};

/// Throws InputError if `output` cannot become a partition directory: it exists and is not to be replaced, it
/// holds files that do not belong to a partition, or its parent does not exist. If a killed build had set
/// parts aside, they first get their name back.
void refuse_output(const std::filesystem::path& output, const Existing& existing);

}  // namespace strata::partition
