// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "checkpoint/output_lock.hpp"
#include "strata/comm/communicator.hpp"
#include "strata/train/config.hpp"

namespace strata::train {

/// The folder of a run. An owner of its lock; only the first rank touches the folder.
///
/// A folder without a result (metrics.jsonl, a model or a checkpoint) has no run, so that a run that was
/// refused does not stand in the way of the next one. If such a folder was made here, it is removed again,
/// and runs/last names the run before.
///
/// A run that is to be replaced keeps all its files until begin(), so that a refusal loses none of them; the
/// log of the new run then has another name until it begins.
class RunFolder {
 public:
  /// Chooses a folder if config.output is empty, makes it and locks it. Collective; throws InputError on all
  /// ranks if the folder cannot be written, lies among part files, is another run's now, or has a run that
  /// the config neither resumes nor overwrites.
  RunFolder(const TrainConfig& config, const comm::Communicator& communicator);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }  ///< the same on all ranks
  /// The path of the first rank's log, which begin() renames to train.log.
  std::filesystem::path log_path() const { return path_ / (replaces_ ? kNewLog : kLog); }
  /// Removes the run that is replaced, if there is one. The first rank calls it when nothing can be refused
  /// any more, before it writes results. Throws Error if another run has taken the folder over.
  void begin();
  /// Throws Error if another run has taken the folder over. The first rank calls it before writing.
  void require() const { lock_->require(); }

 private:
  static constexpr const char *kLog = "train.log", *kNewLog = "train.new.log";

  void take(const TrainConfig& config);

  std::filesystem::path path_;
  bool made_here_ = false;
  bool replaces_ = false;              // a run of which nothing was removed yet
  std::filesystem::path last_before_;  // what runs/last named before this run
  std::unique_ptr<OutputLock> lock_;   ///< null except on the first rank
};

}  // namespace strata::train
