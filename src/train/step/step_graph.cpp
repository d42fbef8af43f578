// SPDX-License-Identifier: Apache-2.0
#include "step/step_graph.hpp"

#include <vector>

#include "strata/util/error.hpp"
#include "strata/util/types.hpp"
#if STRATA_WITH_CUDA
#include <ATen/cuda/CUDAGraph.h>
#endif

namespace strata::train {

#if STRATA_WITH_CUDA

struct StepGraphs::State {
  std::vector<std::unique_ptr<at::cuda::CUDAGraph>> graphs;
  at::cuda::MempoolId_t pool = at::cuda::graph_pool_handle();  // dies with the last graph that used it
};

bool StepGraphs::recorded(int index) const { return state_->graphs[at(index)] != nullptr; }

void StepGraphs::record(int index, const std::function<void()>& work) {
  auto graph = std::make_unique<at::cuda::CUDAGraph>();
  graph->capture_begin(state_->pool, cudaStreamCaptureModeThreadLocal);
  try {
    work();
  } catch (...) {
    try {
      graph->capture_end();
    } catch (const std::exception&) {  // only the first error is reported
    }
    throw;
  }
  graph->capture_end();
  state_->graphs[at(index)] = std::move(graph);
}

void StepGraphs::replay(int index) { state_->graphs[at(index)]->replay(); }

void StepGraphs::forget() {
  for (auto& graph : state_->graphs) graph.reset();
  state_->pool = at::cuda::graph_pool_handle();
}

StepGraphs::StepGraphs(int count) : state_(std::make_unique<State>()) { state_->graphs.resize(at(count)); }

#else

struct StepGraphs::State {};

StepGraphs::StepGraphs(int) {}
bool StepGraphs::recorded(int) const { return false; }
void StepGraphs::record(int, const std::function<void()>&) { throw CudaError("this build has no CUDA"); }
void StepGraphs::replay(int) { throw CudaError("this build has no CUDA"); }
void StepGraphs::forget() {}

#endif

StepGraphs::~StepGraphs() = default;

}  // namespace strata::train
