// SPDX-License-Identifier: Apache-2.0
#include "cuda/jet_steps_cuda.cuh"
#include "cuda/label_state.cuh"
#include "cuda/propagation_cuda.cuh"
#include "cuda/refusals.hpp"
#include "multilevel/accelerator.hpp"

namespace strata::partition {
namespace {

class CudaAccelerator final : public Accelerator {
 public:
  explicit CudaAccelerator(const AcceleratorOptions& options) : options_{options} {}

  bool suits(const LevelGraph& graph) const override {
    return graph.num_entries() >= options_.least_entries && graph.num_constraints <= kMostConstraints;
  }
  Labels propagate(const LevelGraph& graph, const ClusterOptions& options) override {
    return propagate_cuda(graph, options, options_.list_bytes);
  }
  std::unique_ptr<JetSteps> jet_steps(const LevelGraph& graph, const std::vector<std::int32_t>& part_of,
                                      int num_parts) override {
    return std::make_unique<JetStepsCuda>(graph, part_of, num_parts, options_.list_bytes);
  }

 private:
  AcceleratorOptions options_;
};

}  // namespace

std::unique_ptr<Accelerator> cuda_accelerator(const AcceleratorOptions& options) {
  int count = 0;
  const cudaError_t found = cudaGetDeviceCount(&count);
  cudaGetLastError();
  if (found != cudaSuccess) refuse_device(cudaGetErrorString(found));
  if (count == 0) refuse_device({});
  return std::make_unique<CudaAccelerator>(options);
}

bool has_cuda_device() {
  int count = 0;
  const bool found = cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
  cudaGetLastError();
  return found;
}

}  // namespace strata::partition
