// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/train/metrics.hpp"

namespace strata::train {

/// What a training run came to.
struct TrainResult {
  bool stopped = false;  ///< by a signal, with a checkpoint; else the run is complete
  int best_epoch = 0;    ///< by validation
  Scores valid, test;    ///< of the best model
  int epochs_done = 0;
  double seeds_per_second = 0;  ///< of all ranks over the whole training time, waits included
};

}  // namespace strata::train
