// SPDX-License-Identifier: Apache-2.0
#include "kernels/edge_kernels.hpp"
#include "kernels/lanes.cuh"
#include "strata/cuda/check.cuh"

namespace strata::nn {
namespace {

constexpr int kBlockThreads = 256;

/// The row and first column of a thread.
template <int Width, int Lanes>
struct Item {
  Count row, column;

  __device__ Item(Count cols) {
    const Count thread = static_cast<Count>(blockIdx.x) * kBlockThreads + threadIdx.x;
    const Count windows = (cols + Lanes * Width - 1) / (Lanes * Width);
    row = thread / Lanes / windows;
    column = (thread / Lanes % windows * Lanes + thread % Lanes) * Width;
  }
};

// One thread per Width columns of a row: reads edges * cols * 4 bytes, writes rows * cols * 8.
template <int Width, int Lanes>
__global__ void __launch_bounds__(kBlockThreads) max_kernel(EdgeMax max) {
  const Item<Width, Lanes> item(max.cols);
  if (item.row >= max.edges.rows || item.column >= max.cols) return;
  const Count begin = __ldg(max.edges.indptr + item.row), end = __ldg(max.edges.indptr + item.row + 1);
  auto best = Floats<Width>::filled(0.0f);
  auto winners = Pack<std::int32_t, Width>::filled(-1);
  bool none = true;
#pragma unroll 4
  for (Count e = begin; e < end; ++e) {
    const std::int32_t u = __ldg(max.edges.indices + e);
    const bool counts = max.weights == nullptr || __ldg(max.weights + e) > 0.0f;
    const auto in = Floats<Width>::load(max.in + u * max.cols + item.column);
#pragma unroll
    for (int i = 0; i < Width; ++i) {
      const bool wins = counts && (none || in.value[i] > best.value[i] || isnan(in.value[i]));
      best.value[i] = wins ? in.value[i] : best.value[i];
      winners.value[i] = wins ? u : winners.value[i];
    }
    none = none && !counts;
  }
  best.store(max.out + item.row * max.cols + item.column);
  if (max.winners != nullptr) winners.store(max.winners + item.row * max.cols + item.column);
}

// Reads two rows per edge: the winners and their gradients.
template <int Width, int Lanes>
__global__ void __launch_bounds__(kBlockThreads) max_grad_kernel(EdgeMaxGrad grad) {
  const Item<Width, Lanes> item(grad.cols);
  if (item.row >= grad.out_edges.rows || item.column >= grad.cols) return;
  auto total = Floats<Width>::filled(0.0f);
  const Count end = __ldg(grad.out_edges.indptr + item.row + 1);
  std::int32_t before = -1;
#pragma unroll 2
  for (Count e = __ldg(grad.out_edges.indptr + item.row); e < end; ++e) {
    const std::int32_t v = __ldg(grad.out_edges.indices + e);
    const bool again = v == before;
    before = v;
    const auto from = Floats<Width>::load(grad.grad_out + v * grad.cols + item.column);
    const auto winners = Pack<std::int32_t, Width>::load(grad.winners + v * grad.cols + item.column);
#pragma unroll
    for (int i = 0; i < Width; ++i)
      total.value[i] += !again && winners.value[i] == item.row ? from.value[i] : 0.0f;
  }
  total.store(grad.grad_in + item.row * grad.cols + item.column);
}

template <int Width, int Lanes>
unsigned grid_for(Count rows, Count cols) {
  const Count windows = (cols + Lanes * Width - 1) / (Lanes * Width);
  return static_cast<unsigned>((rows * windows * Lanes + kBlockThreads - 1) / kBlockThreads);
}

}  // namespace

void neighbor_max_cuda(const EdgeMax& max, CUstream_st* stream) {
  if (max.edges.rows == 0 || max.cols == 0) return;
  with_width_and_lanes(
      pack_width(max.cols, max.in, max.out, max.winners), max.cols, [&]<int Width, int Lanes>() {
        max_kernel<Width, Lanes>
            <<<grid_for<Width, Lanes>(max.edges.rows, max.cols), kBlockThreads, 0, stream>>>(max);
      });
  cuda::check_launch("neighbor_max");
}

void neighbor_max_grad_cuda(const EdgeMaxGrad& grad, CUstream_st* stream) {
  if (grad.out_edges.rows == 0 || grad.cols == 0) return;
  with_width_and_lanes(
      pack_width(grad.cols, grad.winners, grad.grad_out, grad.grad_in), grad.cols,
      [&]<int Width, int Lanes>() {
        max_grad_kernel<Width, Lanes>
            <<<grid_for<Width, Lanes>(grad.out_edges.rows, grad.cols), kBlockThreads, 0, stream>>>(grad);
      });
  cuda::check_launch("neighbor_max_grad");
}

}  // namespace strata::nn
