#include "step_graph.hpp"

#include "strata/util/error.hpp"
#if STRATA_WITH_CUDA
#include <ATen/cuda/CUDAGraph.h>
#endif

namespace strata::train {

#if STRATA_WITH_CUDA

struct StepGraph::State {
  at::cuda::CUDAGraph graph;
};

void StepGraph::record(const std::function<void()>& work) {
  static const at::cuda::MempoolId_t pool = at::cuda::graph_pool_handle();
  auto state = std::make_unique<State>();
  state->graph.capture_begin(pool, cudaStreamCaptureModeThreadLocal);
  try {
    work();
  } catch (...) {
    try {
      state->graph.capture_end();
    } catch (const std::exception&) {  // the first error is the one to tell
    }
    throw;
  }
  state->graph.capture_end();
  state_ = std::move(state);
}

void StepGraph::replay() { state_->graph.replay(); }

#else

struct StepGraph::State {};

void StepGraph::record(const std::function<void()>&) { throw CudaError("this build has no CUDA"); }
void StepGraph::replay() {}

#endif

void StepGraph::forget() { state_.reset(); }
StepGraph::StepGraph() = default;
StepGraph::~StepGraph() = default;
StepGraph::StepGraph(StepGraph&&) noexcept = default;
StepGraph& StepGraph::operator=(StepGraph&&) noexcept = default;

}  // namespace strata::train
