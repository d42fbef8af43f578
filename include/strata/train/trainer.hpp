// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "strata/comm/communicator.hpp"
#include "strata/nn/model.hpp"
#include "strata/train/config.hpp"
#include "strata/train/task.hpp"

namespace strata::nn {
struct NamedTensor;  // weights.hpp
}

namespace strata::train {

/// The result of a training run.
struct TrainResult {
  std::string folder = {};  ///< the folder that the run wrote into
  bool stopped = false;     ///< as asked, with a checkpoint; else the run is complete
  int best_epoch = 0;       ///< by validation
  Scores valid, test;       ///< of the best model
  int epochs_done = 0;
  double seeds_per_second = 0;  ///< of all ranks over the whole training time, waits included
  /// Weights of the best model under their names in model.safetensors, on the CPU; null before the first
  /// evaluation.
  std::shared_ptr<const std::vector<nn::NamedTensor>> weights;
};

/// Turns SIGINT, SIGTERM and SIGUSR1 into a flag that the training loop reads.
///
/// Make it first in main, before any other thread: it blocks the signals for this thread and all threads that
/// it starts, and waits for them in a thread of its own. If a signal arrives while the process starts, the
/// system keeps it until then. A request never ends the process by itself: the run obeys it after the current
/// step or write, however long that takes.
class StopListener {
 public:
  StopListener();
  /// Selects a listener without signals: a program that has handlers of its own calls request().
  struct ByHand {};
  explicit StopListener(ByHand);
  ~StopListener();  ///< ends the thread; the signals stay blocked
  StopListener(const StopListener&) = delete;
  StopListener& operator=(const StopListener&) = delete;

  void request(int signal);  ///< as if this signal had arrived
  bool requested() const noexcept { return signal_ != 0; }
  int signal() const noexcept { return signal_; }  ///< the first that arrived; 0: none

  /// Until loaded(), the listening thread calls `act` with each signal, at once if one has arrived already.
  /// For a program that has nothing to save while it loads, and therefore ends itself in `act`.
  void until_loaded(std::function<void(int signal)> act);
  /// From now on a request is only a flag.
  void loaded();
  bool is_loaded() const noexcept { return loaded_; }  ///< whether loaded() was called

 private:
  void listen();

  std::atomic<int> signal_{0};
  std::atomic<bool> ending_{false}, loaded_{false};
  // protects act_ and is held while it runs, so that either act_ or the loop gets a request
  std::mutex mutex_;
  std::function<void(int)> act_;
  std::thread thread_;
};

class Task;

using ModelFactory = std::function<std::shared_ptr<nn::BlockModel>(const nn::ModelOptions&)>;

/// Gets the record of each epoch that is over as JSON: the "epoch" of metrics.jsonl, with the scores "valid" and
/// "test" if it was evaluated. Returns whether the run goes on; if not, it stops with a checkpoint.
using EpochCallback = std::function<bool(const std::string& record)>;

/// The whole run: load, train, evaluate, checkpoint, report. Collective over `world`; the same result on
/// every rank.
///
/// It writes into config.output: model.safetensors (the best by validation), checkpoint.safetensors and the
/// one before it, metrics.jsonl and train.log. Meanwhile strata.lock keeps other runs out. It throws what the
/// libraries throw; the caller must then end all ranks (World::abort), because others may be waiting. It
/// calls stop.loaded() before the first step. After a stop request all ranks agree to stop in the next step,
/// and a checkpoint is written.
///
/// The config is validated first, on all ranks together; InputError also if ranks have different options.
///
/// `make_model` makes the model that config.model names, or a model of the caller's own, which
/// config.own_model names. The latter derives from nn::BlockModel and has f32 parameters; every rank must
/// make it with the same weights (by options.seed). Its buffers may differ between ranks during training.
/// Before each evaluation and checkpoint, floating-point buffers become the mean over the ranks, and others
/// become those of the first rank. `task` is what is learned; null: make_task(). `on_epoch` is called
/// on the first rank only, whose answer counts for all, while the others wait for as long as it takes.
TrainResult train(const TrainConfig& config, const comm::World& world, StopListener& stop,
                  const ModelFactory& make_model = nn::make_model, const Task* task = nullptr,
                  const EpochCallback& on_epoch = {});

/// {"libtorch 2.11.0", "Open MPI v4.1.4", "NCCL 2.28.9", "CUDA 13.0", "HDF5 1.10.8"}: the libraries of this
/// process. METIS is not among them: parts record which one made them.
std::vector<std::string> library_versions();

}  // namespace strata::train
