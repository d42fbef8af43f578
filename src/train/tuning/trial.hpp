// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <vector>

#include "strata/comm/communicator.hpp"

namespace strata::train {

/// Finds the fastest of some settings of a pipeline while it runs, from the times of its steps.
///
/// Each setting is tried for a window of steps, one setting after the other, for some rounds. The first steps
/// of a window do not count, because the previous setting still affects them. Setting 0 stays unless another
/// one is faster by `margin`.
///
/// Medians of {10.0, 9.9, 8.0} ms with a margin of 0.02 choose setting 2; {10.0, 9.9, 9.9} choose 0.
class Trial {
 public:
  struct Options {
    int settings = 1;
    int warm_up = 4, steps = 8;  ///< of a window
    int rounds = 2;
    double margin = 0.02;
    /// Makes the medians the same on all ranks; called once, by add(). Empty: one rank.
    std::function<void(std::vector<double>&)> agree = {};
  };
  /// A function for Options::agree that takes the median of the slowest rank for each setting. It is
  /// collective.
  static std::function<void(std::vector<double>&)> slowest_of(const comm::Communicator& ranks);

  /// With one setting, the trial is decided at once.
  explicit Trial(Options options);

  int setting() const { return setting_; }  ///< of the next step
  bool decided() const { return decided_; }
  /// Adds the time of a step. All ranks call it for the same steps. REQUIRES: not decided.
  void add(double seconds);
  /// Begins the window anew, because the next step does not directly follow the last one.
  void interrupt() { in_window_ = 0; }
  const std::vector<double>& medians() const { return medians_; }  ///< seconds, once decided

 private:
  void end_window();
  void decide();

  Options options_;
  int setting_ = 0, round_ = 0, in_window_ = 0;
  bool decided_ = false;
  std::vector<double> window_;                // the steps that count
  std::vector<std::vector<double>> seconds_;  // of each setting, its finished windows
  std::vector<double> medians_;
};

}  // namespace strata::train
