// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "step/step_runner.hpp"
#include "strata/comm/communicator.hpp"
#include "strata/cuda/stream.hpp"
#include "tuning/sm_split.hpp"
#include "tuning/stage_sms.hpp"
#include "tuning/trial.hpp"

namespace strata::train {

/// Gives the stages of a run the SMs that --sm-split asks for. "auto" measures if a run is long enough: some
/// of its first steps are cut into segments with different splits. A split does not change any result, so
/// these steps are as good as any others.
class SmMeasurement {
 public:
  struct Parts {
    std::string requested = "auto";  ///< --sm-split
    Device device;
    bool measures = false;  ///< whether "auto" is measured; the same on all ranks
    batches::Pipeline* pipeline = nullptr;
    StepRunner* steps = nullptr;
    const comm::Communicator* world = nullptr;  ///< no other thread may use it during a run's steps
  };
  /// The steps that a run still has to make.
  struct Ahead {
    Count first = 0, end = 0;  ///< steps of the epoch
    Count all = 0;             ///< steps of the run
  };

  /// Throws InputError for a split that is impossible here.
  explicit SmMeasurement(const Parts& parts);

  /// Begins a segment and returns its end: the steps from ahead.first to the result have the same split.
  Count begin_segment(const Ahead& ahead);
  void end_step();     ///< call it when a step is enqueued and the one before it is done; collective
  void end_segment();  ///< call it when all batches of the segment are released; collective

  const cuda::Stream& stream() const { return sms_.stream(); }  ///< of training

  /// A message about the split for people: once, when it is certain; else empty.
  std::string take_message() { return std::exchange(message_, {}); }
  /// The result, once, after the last measured segment.
  std::optional<SmSplitResult> take_result() { return std::exchange(result_, std::nullopt); }

 private:
  using Clock = std::chrono::steady_clock;
  using Split = std::pair<cuda::SmShares, cuda::SmSplit>;

  enum class Phase : std::uint8_t { settling, measuring, settled };

  void begin_measuring();
  void make_splits();
  void stay_off(const std::string& reason);
  void move_to(const Split& split);
  void conclude();

  Parts parts_;
  StageSms sms_;
  Phase phase_ = Phase::settling;
  std::vector<Split> splits_;  // off first
  std::optional<Trial> trial_;
  bool timed_ = false;  // this segment
  Count steps_ = 0;     // of this segment
  Count left_ = 0;      // steps of the run after this segment
  Clock::time_point last_;
  std::string message_;
  std::optional<SmSplitResult> result_;
};

}  // namespace strata::train
