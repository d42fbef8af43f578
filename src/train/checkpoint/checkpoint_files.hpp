// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <string>

#include "checkpoint/checkpoint.hpp"
#include "strata/comm/communicator.hpp"

namespace strata::train {

/// The checkpoints of an output folder: the newest, and the one before it in case the newest is damaged.
class CheckpointFiles {
 public:
  /// Does not look at the folder yet.
  explicit CheckpointFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Writes the newest checkpoint. The old newest one becomes the previous one after the new file was read
  /// back from the disk, unless it is damaged, or this run neither wrote it nor resumed from it. One rank
  /// calls it. Throws IoError.
  void save(const CheckpointParts& parts);

  struct Found {
    std::filesystem::path path;
    std::string contents;
  };
  /// The newest file whose hashes are right; warns if that is the previous one. One rank calls it. Throws
  /// InputError if there is none.
  Found find() const;

  /// Fills the parts on every rank from the file that the first rank finds. Collective; if a rank fails, all
  /// throw.
  void load(const CheckpointParts& parts, const comm::Communicator& communicator);

  std::filesystem::path newest() const { return folder_ / "checkpoint.safetensors"; }
  std::filesystem::path previous() const { return folder_ / "checkpoint.previous.safetensors"; }

 private:
  /// What the newest file in the folder is.
  enum class Newest { of_another_run, ours, damaged };

  std::filesystem::path folder_;
  Newest newest_ = Newest::of_another_run;
};

}  // namespace strata::train
