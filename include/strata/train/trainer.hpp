#pragma once
#include <memory>
#include <string>

#include "strata/comm/communicator.hpp"
#include "strata/train/config.hpp"
#include "strata/train/evaluator.hpp"
#include "strata/train/stop_listener.hpp"

namespace strata::train {

struct TrainResult {
  bool stopped = false;  ///< by a signal, with a checkpoint; else the run is complete
  int best_epoch = 0;    ///< by validation
  Scores valid, test;    ///< of the best model
  int epochs_done = 0;
  double seeds_per_second = 0;  ///< of all ranks over the whole training time, waits included
};

/// The whole run: load, train, evaluate, checkpoint, report. Collective over `world`; the same result on
/// every rank.
///
/// Files in config.output: model.safetensors (the best by validation), checkpoint.safetensors, metrics.jsonl,
/// train.log. Throws what the libraries throw; then the caller must end all ranks (World::abort), for the
/// others may be waiting.
TrainResult train(const TrainConfig& config, const comm::World& world, StopListener& stop);

}  // namespace strata::train
