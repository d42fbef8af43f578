// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/cli/program.hpp"
#include "strata/comm/backend.hpp"
#include "strata/train/trainer.hpp"
#include "strata/util/log.hpp"

namespace strata::cli {

/// Sets the variables that libraries read when they begin, as strata-train does. For programs that make a
/// TrainJob: call it before CUDA and NCCL begin.
void prepare_process();

/// Runs the work of strata-train or strata-plan within a program that has more to do: the options have names and
/// values, the outcome is returned, errors are thrown, and signals are the program's.
///
/// It works on a thread of its own. Files, records and numbers are those of strata-train on the same ranks.
/// Process-wide settings (libtorch's precision of matrix products, malloc's, the default log) are the
/// program's again when it has ended.
class TrainJob {
 public:
  struct Setup {
    std::string caller;                    ///< "strata.train", in messages and records
    std::shared_ptr<comm::Backend> ranks;  ///< for this job only; it closes them, unless it fails
    /// Lowest level of the log that is shown; train.log follows --log-level.
    LogLevel terminal = LogLevel::warn;
    Purpose purpose = Purpose::train;
    std::optional<int> gpu = {};  ///< TopologyOptions::gpu
    bool reports_epochs = false;  ///< waits after each epoch for answer(); the first rank's counts
  };
  struct Outcome {
    train::TrainResult result;  ///< of a trained model's use: the scores, and whether it was stopped
    std::string records;        ///< metrics.jsonl, or the plan; on every rank
  };

  /// Starts the job; collective over the ranks, as is its end. Options are as for Command.
  TrainJob(std::vector<NamedOption> options, Setup setup);
  TrainJob(TrainJob&&) noexcept;
  ~TrainJob();  ///< does not wait: work that has not ended goes on

  /// Whether the job has ended by then. Returns earlier, with false, if there is an epoch_record().
  bool wait_for(std::chrono::milliseconds patience) const;
  /// The record of an epoch for which training waits; see train::EpochCallback.
  std::optional<std::string> epoch_record() const;
  /// Lets training go on, or asks it to stop with a checkpoint. REQUIRES: there is an epoch_record().
  void answer(bool goes_on);
  /// Asks all ranks to stop after the step under way, with a checkpoint.
  void stop(int signal);
  /// Whether there is nothing to save yet: a stop becomes effective after loading only.
  bool is_loading() const;
  /// Waits for the end. Throws what the libraries throw; call it once.
  Outcome take();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace strata::cli
