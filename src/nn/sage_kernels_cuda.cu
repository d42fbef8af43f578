#include <algorithm>

#include "lanes.cuh"
#include "sage_kernels.hpp"
#include "strata/cuda/check.cuh"

namespace strata::nn {
namespace {

constexpr int kThreads = 256;
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

/// The columns that a lane of a warp takes: kVectors packs of Width, 32 packs apart.
template <int Width, int kVectors>
struct Columns {
  Floats<Width> value[kVectors];

  __device__ static Columns zeros() {
    Columns columns;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) columns.value[v] = Floats<Width>::filled(0.0f);
    return columns;
  }
  __device__ static Count first(Count base, int v) { return base + (v * kWarp + lane()) * Width; }
  __device__ static constexpr Count span() { return static_cast<Count>(kVectors) * kWarp * Width; }

  __device__ static Columns load(const float* row, Count base, Count cols) {
    Columns columns = zeros();
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (first(base, v) < cols) columns.value[v] = Floats<Width>::load(row + first(base, v));
    }
    return columns;
  }
  __device__ void store(float* row, Count base, Count cols) const {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (first(base, v) < cols) value[v].store(row + first(base, v));
    }
  }
  __device__ void add(const Columns& other, float scale) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) add_scaled(value[v], other.value[v], scale);
  }
  __device__ void multiply(float scale) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
#pragma unroll
      for (int i = 0; i < Width; ++i) value[v].value[i] *= scale;
    }
  }
};

/// Rows of a table.
struct Rows {
  const float* data;
  Count cols, pitch, first_row;
};

/// The sum of weight(i) * row i over a list, for the columns from `base` on. A lane holds an index of the
/// list, and all lanes read one row after the other, kInFlight on their way at once. Called by one whole
/// warp.
template <int Width, int kVectors, int kInFlight, typename Weight>
__device__ Columns<Width, kVectors> sum_rows(const std::int32_t* list, Count size, const Rows& rows,
                                             Count base, Weight&& weight) {
  using Part = Columns<Width, kVectors>;
  Part sum = Part::zeros();
  for (Count begin = 0; begin < size; begin += kWarp) {
    const int num = static_cast<int>(min(static_cast<Count>(kWarp), size - begin));
    const bool mine = static_cast<int>(lane()) < num;
    const std::int32_t index = mine ? list[begin + lane()] : 0;
    const float own_weight = mine ? weight(index) : 0.0f;
    for (int first = 0; first < num; first += kInFlight) {
      Part parts[kInFlight];
      float weights[kInFlight];
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        const int at = first + i;
        const Count row = __shfl_sync(~0u, index, at % kWarp) - rows.first_row;
        weights[i] = __shfl_sync(~0u, own_weight, at % kWarp);
        if (at < num) parts[i] = Part::load(rows.data + row * rows.pitch, base, rows.cols);
      }
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        if (first + i < num) sum.add(parts[i], weights[i]);
      }
    }
  }
  return sum;
}

// A warp a row. The rows of the neighbours, from L2 or HBM, bound the time.
template <int Width, int kVectors>
__global__ void __launch_bounds__(kThreads) mean_concat_kernel(MeanConcat task) {
  using Part = Columns<Width, kVectors>;
  constexpr int kInFlight = 8 / kVectors;
  const Count out_pitch = 2 * task.cols + MeanConcat::kTail;
  const Rows rows{task.in, task.cols, task.in_pitch, task.first_row};
  for (Count row = first_warp(); row < task.rows; row += num_warps()) {
    const List list = list_of(task.edges, row);
    const float inverse = list.size == 0 ? 0.0f : 1.0f / static_cast<float>(list.size);
    const Count own = (task.own_ids == nullptr ? row : task.own_ids[row]) - task.first_row;
    float* out = task.out + row * out_pitch;
    for (Count base = 0; base < task.cols; base += Part::span()) {
      Part self = Part::zeros();
      if (own >= 0) self = Part::load(task.in + own * task.in_pitch, base, task.cols);
      Part mean = sum_rows<Width, kVectors, kInFlight>(task.edges.indices + list.begin, list.size, rows, base,
                                                       [](std::int32_t) { return 1.0f; });
      mean.multiply(inverse);
      mean.store(out, base, task.cols);
      self.store(out + task.cols, base, task.cols);
    }
    if (lane() < MeanConcat::kTail) out[2 * task.cols + lane()] = lane() == 0 ? 1.0f : 0.0f;
  }
}

// A warp a row, as above; most src nodes have one or two out-edges.
template <int Width, int kVectors>
__global__ void __launch_bounds__(kThreads) gated_mean_grad_kernel(GatedMeanGrad task) {
  using Part = Columns<Width, kVectors>;
  const auto inverse_degree = [&](std::int32_t dst) {
    return 1.0f / static_cast<float>(list_of(task.edges, dst).size);
  };
  const Rows rows{task.grad, task.cols, 2 * task.cols, 0};
  for (Count row = first_warp(); row < task.rows; row += num_warps()) {
    const Count begin = task.transposed_indptr[row], size = task.transposed_indptr[row + 1] - begin;
    for (Count base = 0; base < task.cols; base += Part::span()) {
      const Part gate = Part::load(task.output + row * task.cols, base, task.cols);
      Part sum =
          sum_rows<Width, kVectors, 2>(task.transposed_indices + begin, size, rows, base, inverse_degree);
      if (row < task.num_dst)
        sum.add(Part::load(task.grad + (2 * row + 1) * task.cols, base, task.cols), 1.0f);
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
#pragma unroll
        for (int i = 0; i < Width; ++i) {
          float& value = sum.value[v].value[i];
          value = gate.value[v].value[i] > 0.0f ? value * task.scale : 0.0f;
        }
      }
      sum.store(task.out + row * task.cols, base, task.cols);
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
  const bool packed = task.in_pitch % 4 == 0 && pack_width(task.cols, task.in, task.out) == 4;
  if (packed && task.cols > kWarp * 4)
    mean_concat_kernel<4, 2><<<blocks, kThreads, 0, stream>>>(task);
  else if (packed)
    mean_concat_kernel<4, 1><<<blocks, kThreads, 0, stream>>>(task);
  else
    mean_concat_kernel<1, 4><<<blocks, kThreads, 0, stream>>>(task);
  cuda::check_launch("mean_concat");
}

void gated_mean_grad(const GatedMeanGrad& task, CUstream_st* stream) {
  if (task.rows == 0) return;
  const unsigned blocks = blocks_for(task.rows);
  const bool packed = pack_width(task.cols, task.grad, task.output, task.out) == 4;
  if (packed && task.cols > kWarp * 4)
    gated_mean_grad_kernel<4, 2><<<blocks, kThreads, 0, stream>>>(task);
  else if (packed)
    gated_mean_grad_kernel<4, 1><<<blocks, kThreads, 0, stream>>>(task);
  else
    gated_mean_grad_kernel<1, 4><<<blocks, kThreads, 0, stream>>>(task);
  cuda::check_launch("gated_mean_grad");
}

}  // namespace strata::nn
