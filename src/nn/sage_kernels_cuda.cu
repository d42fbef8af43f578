#include <algorithm>

#include "lanes.cuh"
#include "sage_kernels.hpp"
#include "strata/cuda/check.cuh"

namespace strata::nn {
namespace {

constexpr int kThreads = 256;
constexpr int kRowsInFlight = 8;  // rows that a warp has asked for before it adds the first
constexpr unsigned kWarp = 32;

struct List {
  Count begin, size;
};

__device__ inline List list_of(const EdgeLists& edges, Count i) {
  if (edges.indptr == nullptr) return {i * edges.stride, edges.counts[i]};
  const Count begin = edges.indptr[i];
  return {begin, edges.indptr[i + 1] - begin};
}

__device__ inline unsigned lane() { return threadIdx.x % kWarp; }

__device__ inline Count first_warp() {
  return (static_cast<Count>(blockIdx.x) * kThreads + threadIdx.x) / kWarp;
}
__device__ inline Count num_warps() { return static_cast<Count>(gridDim.x) * (kThreads / kWarp); }

/// The sum of weight(i) * rows[i] over a list of rows, for the columns that begin at `column`. A lane holds
/// an index of the list, and all lanes read one row after the other. Called by one whole warp.
template <int Width, typename Weight>
__device__ Floats<Width> sum_rows(const std::int32_t* list, Count size, const float* rows, Count pitch,
                                  Count first_row, Count column, bool inside, Weight&& weight) {
  Floats<Width> sum = Floats<Width>::filled(0.0f);
  for (Count begin = 0; begin < size; begin += kWarp) {
    const int num = static_cast<int>(min(static_cast<Count>(kWarp), size - begin));
    const std::int32_t index = static_cast<int>(lane()) < num ? list[begin + lane()] : 0;
    const float own_weight = static_cast<int>(lane()) < num ? weight(index) : 0.0f;
    for (int first = 0; first < num; first += kRowsInFlight) {
      Floats<Width> parts[kRowsInFlight];
      float weights[kRowsInFlight];
#pragma unroll
      for (int i = 0; i < kRowsInFlight; ++i) {
        const int at = first + i;
        const Count row = __shfl_sync(~0u, index, at % kWarp) - first_row;
        weights[i] = __shfl_sync(~0u, own_weight, at % kWarp);
        parts[i] = Floats<Width>::filled(0.0f);
        if (at < num && inside) parts[i] = Floats<Width>::load(rows + row * pitch + column);
      }
#pragma unroll
      for (int i = 0; i < kRowsInFlight; ++i) {
        if (first + i < num) add_scaled(sum, parts[i], weights[i]);
      }
    }
  }
  return sum;
}

// A warp a row. The rows of the neighbours, from L2 or HBM, bound the time.
template <int Width>
__global__ void __launch_bounds__(kThreads) mean_concat_kernel(MeanConcat task) {
  const Count out_pitch = 2 * task.cols + MeanConcat::kTail;
  for (Count row = first_warp(); row < task.rows; row += num_warps()) {
    const List list = list_of(task.edges, row);
    const float inverse = list.size == 0 ? 0.0f : 1.0f / static_cast<float>(list.size);
    const Count own = (task.own_ids == nullptr ? row : task.own_ids[row]) - task.first_row;
    float* out = task.out + row * out_pitch;
    for (Count base = 0; base < task.cols; base += kWarp * Width) {
      const Count column = base + lane() * Width;
      const bool inside = column < task.cols;
      Floats<Width> self = Floats<Width>::filled(0.0f);
      if (inside && own >= 0) self = Floats<Width>::load(task.in + own * task.in_pitch + column);
      Floats<Width> mean = sum_rows<Width>(task.edges.indices + list.begin, list.size, task.in, task.in_pitch,
                                           task.first_row, column, inside, [](std::int32_t) { return 1.0f; });
      if (!inside) continue;
#pragma unroll
      for (int i = 0; i < Width; ++i) mean.value[i] *= inverse;
      mean.store(out + column);
      self.store(out + task.cols + column);
    }
    if (lane() < MeanConcat::kTail) out[2 * task.cols + lane()] = lane() == 0 ? 1.0f : 0.0f;
  }
}

template <int Width>
__global__ void __launch_bounds__(kThreads) gated_mean_grad_kernel(GatedMeanGrad task) {
  const auto inverse_degree = [&](std::int32_t dst) {
    return 1.0f / static_cast<float>(list_of(task.edges, dst).size);
  };
  for (Count row = first_warp(); row < task.rows; row += num_warps()) {
    const Count begin = task.transposed_indptr[row], size = task.transposed_indptr[row + 1] - begin;
    for (Count base = 0; base < task.cols; base += kWarp * Width) {
      const Count column = base + lane() * Width;
      const bool inside = column < task.cols;
      Floats<Width> gate = Floats<Width>::filled(0.0f);
      if (inside) gate = Floats<Width>::load(task.output + row * task.cols + column);
      Floats<Width> sum = sum_rows<Width>(task.transposed_indices + begin, size, task.grad, 2 * task.cols, 0,
                                          column, inside, inverse_degree);
      if (!inside) continue;
      if (row < task.num_dst) {
        add_scaled(sum, Floats<Width>::load(task.grad + row * 2 * task.cols + task.cols + column), 1.0f);
      }
#pragma unroll
      for (int i = 0; i < Width; ++i) sum.value[i] = gate.value[i] > 0.0f ? sum.value[i] * task.scale : 0.0f;
      sum.store(task.out + row * task.cols + column);
    }
  }
}

unsigned blocks_for(Count rows) {
  constexpr Count kMaxBlocks = 1 << 20;
  return static_cast<unsigned>(std::clamp<Count>((rows * kWarp + kThreads - 1) / kThreads, 1, kMaxBlocks));
}

}  // namespace

void mean_concat(const MeanConcat& task, CUstream_st* stream) {
  if (task.rows == 0) return;
  const unsigned blocks = blocks_for(task.rows);
  const int width = task.in_pitch % 4 == 0 ? pack_width(task.cols, task.in, task.out) : 1;
  if (width == 4)
    mean_concat_kernel<4><<<blocks, kThreads, 0, stream>>>(task);
  else
    mean_concat_kernel<1><<<blocks, kThreads, 0, stream>>>(task);
  cuda::check_launch("mean_concat");
}

void gated_mean_grad(const GatedMeanGrad& task, CUstream_st* stream) {
  if (task.rows == 0) return;
  const unsigned blocks = blocks_for(task.rows);
  if (pack_width(task.cols, task.grad, task.output, task.out) == 4)
    gated_mean_grad_kernel<4><<<blocks, kThreads, 0, stream>>>(task);
  else
    gated_mean_grad_kernel<1><<<blocks, kThreads, 0, stream>>>(task);
  cuda::check_launch("gated_mean_grad");
}

}  // namespace strata::nn
