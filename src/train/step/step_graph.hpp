// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>

namespace strata::train {

/// What libtorch did on its current stream of a GPU, to be replayed; an owner of several such recordings, of
/// which one runs at a time: memory that recorded work took from libtorch's allocator stays theirs and is
/// shared by all.
class StepGraphs {
 public:
  explicit StepGraphs(int count);
  ~StepGraphs();
  StepGraphs(const StepGraphs&) = delete;
  StepGraphs& operator=(const StepGraphs&) = delete;

  bool recorded(int index) const;
  /// `work` runs on the host alone; it must neither synchronise nor read what is on the device. Other threads
  /// may use the GPU meanwhile.
  void record(int index, const std::function<void()>& work);
  /// On libtorch's current stream. REQUIRES: recorded(index).
  void replay(int index);
  void forget();  ///< all recordings and their memory

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace strata::train
