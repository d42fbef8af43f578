// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "strata/train/scores.hpp"

namespace strata::nn {
struct NamedTensor;  // weights.hpp
}

namespace strata::train {

/// The result of a training run.
struct TrainResult {
  std::string folder = {};  ///< the folder that the run wrote into
  bool stopped = false;     ///< by a signal, with a checkpoint; else the run is complete
  int best_epoch = 0;       ///< by validation
  Scores valid, test;       ///< of the best model
  int epochs_done = 0;
  double seeds_per_second = 0;  ///< of all ranks over the whole training time, waits included
  /// Weights of the best model under their names in model.safetensors, on the CPU; null before the first
  /// evaluation.
  std::shared_ptr<const std::vector<nn::NamedTensor>> weights;
};

}  // namespace strata::train
