// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "fused/sage_kernels.hpp"
#include "kernels/piece_sums.cuh"
#include "strata/cuda/check.cuh"

namespace strata::nn {
namespace {

constexpr int kThreads = 256;

template <typename T>
__global__ void __launch_bounds__(kThreads) join_weights_kernel(SageLayers<JoinedWeightsOf<T>> layers) {
  const JoinedWeightsOf<T>& layer = layers.layers[blockIdx.y];
  const Count size = layer.out_cols * layer.in_cols;
  const Count i = static_cast<Count>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= size) return;
  T* row = layer.joined + i / layer.in_cols * 2 * layer.in_cols + i % layer.in_cols;
  row[0] = from_f32<T>(layer.neighbors[i]);
  row[layer.in_cols] = from_f32<T>(layer.root[i]);
}

__global__ void __launch_bounds__(kThreads) add_weight_grads_kernel(SageLayers<ParameterGrads> layers) {
  const ParameterGrads& layer = layers.layers[blockIdx.y];
  const Count size = layer.out_cols * layer.in_cols;
  const Count i = static_cast<Count>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= size) return;
  const float* row = layer.joined + i / layer.in_cols * 2 * layer.in_cols + i % layer.in_cols;
  layer.neighbors[i] += row[0];
  layer.root[i] += row[layer.in_cols];
}

constexpr int kBiasColumns = 8;  // of a block
__global__ void __launch_bounds__(kThreads) add_bias_grads_kernel(SageLayers<ParameterGrads> layers) {
  const ParameterGrads& layer = layers.layers[blockIdx.y];
  const Count column = static_cast<Count>(blockIdx.x) * kBiasColumns + threadIdx.x % kBiasColumns;
  const float sum =
      sum_of_pieces<kThreads, kBiasColumns, 8>({layer.piece_sums, layer.num_pieces, layer.out_cols}, column);
  if (threadIdx.x < kBiasColumns && column < layer.out_cols) layer.bias[column] += sum;
}

unsigned blocks_for(Count items, Count of_block) {
  return static_cast<unsigned>(std::max<Count>(1, (items + of_block - 1) / of_block));
}

template <typename Layer>
dim3 grid_over(const SageLayers<Layer>& layers, Count (*items)(const Layer&), Count of_block) {
  Count most = 0;
  for (int l = 0; l < layers.count; ++l)
    most = std::max(most, items(layers.layers[static_cast<std::size_t>(l)]));
  return {blocks_for(most, of_block), static_cast<unsigned>(layers.count)};
}

}  // namespace

template <typename T>
void join_weights(const SageLayers<JoinedWeightsOf<T>>& layers, CUstream_st* stream) {
  const dim3 grid = grid_over<JoinedWeightsOf<T>>(
      layers, [](const JoinedWeightsOf<T>& layer) { return layer.out_cols * layer.in_cols; }, kThreads);
  join_weights_kernel<<<grid, kThreads, 0, stream>>>(layers);
  cuda::check_launch("join_weights");
}

void add_parameter_grads(const SageLayers<ParameterGrads>& layers, CUstream_st* stream) {
  using Layer = ParameterGrads;
  const dim3 weights = grid_over<Layer>(
      layers, [](const Layer& layer) { return layer.out_cols * layer.in_cols; }, kThreads);
  add_weight_grads_kernel<<<weights, kThreads, 0, stream>>>(layers);
  cuda::check_launch("add_weight_grads");
  const dim3 biases = grid_over<Layer>(
      layers, [](const Layer& layer) { return layer.out_cols; }, kBiasColumns);
  add_bias_grads_kernel<<<biases, kThreads, 0, stream>>>(layers);
  cuda::check_launch("add_bias_grads");
}

template void join_weights(const SageLayers<JoinedWeightsOf<float>>&, CUstream_st*);
template void join_weights(const SageLayers<JoinedWeightsOf<Bf16>>&, CUstream_st*);

}  // namespace strata::nn
