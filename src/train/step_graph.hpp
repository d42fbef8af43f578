#pragma once
#include <functional>
#include <memory>

namespace strata::train {

/// What libtorch did on its current stream of a GPU, to be replayed; an owner. Memory that the recorded work
/// took from libtorch's allocator stays its own, and is shared by all StepGraphs of the process, of which one
/// runs at a time.
class StepGraph {
 public:
  StepGraph();
  ~StepGraph();
  StepGraph(StepGraph&&) noexcept;
  StepGraph& operator=(StepGraph&&) noexcept;

  bool recorded() const { return state_ != nullptr; }
  /// `work` runs on the host alone; it must neither synchronise nor read what is on the device. Other threads
  /// may use the GPU meanwhile.
  void record(const std::function<void()>& work);
  /// On libtorch's current stream. REQUIRES: recorded().
  void replay();
  void forget();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace strata::train
