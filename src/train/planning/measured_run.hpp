// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <string>

#include "strata/util/types.hpp"

namespace strata::train {

/// What metrics.jsonl says of a run on one machine: seconds of a step of one rank.
struct MeasuredRun {
  double sample_seconds = 0, gather_seconds = 0;
  double compute_seconds = 0;
  double seeds_per_rank = 0;  ///< of a step
  Count hidden = 0;
  std::string model, fanouts;  ///< "sage", "[15,10,5]"
  /// --pipeline off: the times of the stages do not contain what they took from each other.
  bool one_by_one = false;
};

/// Reads the last run of RUN/metrics.jsonl and its last epoch, the fastest of several. Throws InputError if
/// there is none, or if it ran on several machines: its stages then waited for messages.
MeasuredRun read_measured_run(const std::filesystem::path& folder);

}  // namespace strata::train
