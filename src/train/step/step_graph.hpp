// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>

namespace strata::train {

/// Recordings of what libtorch did on its current stream of a GPU, to be replayed. An owner of several
/// recordings. Only one may run at a time, because they share the memory that recorded work took from
/// libtorch's allocator, which they keep.
class StepGraphs {
 public:
  explicit StepGraphs(int count);
  ~StepGraphs();
  StepGraphs(const StepGraphs&) = delete;
  StepGraphs& operator=(const StepGraphs&) = delete;

  bool recorded(int index) const;
  /// Runs `work` on the host and records what it enqueues, which does not run yet. `work` must neither
  /// synchronise nor read from the device. Other threads may use the GPU meanwhile.
  void record(int index, const std::function<void()>& work);
  /// Launches the recording on libtorch's current stream. REQUIRES: recorded(index).
  void replay(int index);
  void forget();  ///< frees all recordings and their memory

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace strata::train
