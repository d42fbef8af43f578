// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <vector>

#include "strata/comm/communicator.hpp"
#include "strata/util/thread_pool.hpp"
#include "tuning/trial.hpp"

namespace strata::train {

/// How many threads sample and gather while the CPU trains: given, or measured during the first steps.
/// Training has a thread a core in any case, for the number of its threads shows in the bits of its sums;
/// that of the loader's does not.
class LoaderThreads {
 public:
  struct Options {
    std::vector<ThreadPool*> pools;  ///< of the loader's stages
    int cores = 1;                   ///< of this rank
    int threads = 0;                 ///< 0: measured
    bool overlap = true;             ///< off: the stages take turns with training, and have all cores
    const comm::Communicator* communicator = nullptr;  ///< of the ranks, which choose alike
    bool tells = false;                                ///< logs what was measured
  };
  explicit LoaderThreads(Options options);  ///< collective

  void begin_epoch();
  void end_epoch();  ///< the pools have all cores again
  /// All ranks call it after each step of an epoch. Collective, at the step that ends the measurement.
  void end_step();
  int threads() const;  ///< of the next step

  /// All cores, half of them, and so on, down to one thread where a rank has most_cores: {6, 3, 1, 1} of 6
  /// where another has 8.
  static std::vector<int> candidates(int cores, int most_cores);

 private:
  void apply(int threads);
  void tell() const;

  Options options_;
  std::vector<int> candidates_;
  Trial trial_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace strata::train
