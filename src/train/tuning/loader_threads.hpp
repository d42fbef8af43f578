// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <vector>

#include "strata/comm/communicator.hpp"
#include "strata/util/threads.hpp"
#include "tuning/trial.hpp"

namespace strata::train {

/// The number of threads that sample and gather while the CPU trains, measured during the first steps.
/// Training always has one thread per core, because the number of its threads changes the bits of its sums;
/// the number of loader threads does not.
class LoaderThreads {
 public:
  struct Options {
    std::vector<ThreadPool*> pools;  ///< of the loader's stages
    int cores = 1;                   ///< of this rank
    bool overlap = true;             ///< false: the stages take turns with training, and have all cores
    const comm::Communicator* communicator = nullptr;  ///< of the ranks, which all choose the same number
    bool logs = false;                                 ///< logs what was measured
  };
  explicit LoaderThreads(Options options);  ///< collective

  void begin_epoch();
  void end_epoch();  ///< gives the pools all cores again
  /// All ranks call it after each step of an epoch. Collective in the step that ends the measurement.
  void end_step();
  int threads() const;  ///< of the next step

  /// The numbers to try: all cores, half of them, and so on, until a rank with most_cores would have one
  /// thread. For 6 cores, if another rank has 8: {6, 3, 1, 1}.
  static std::vector<int> candidates(int cores, int most_cores);

 private:
  void apply(int threads);
  void log_result() const;

  Options options_;
  std::vector<int> candidates_;
  Trial trial_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace strata::train
