// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/dropout.cuh"
#include "kernels/lanes.cuh"
#include "strata/cuda/check.cuh"

namespace strata::nn {
namespace {

constexpr int kBlockThreads = 256;
constexpr int kEdgesInFlight = 4;  // rows that a thread requests before it adds the first one

/// A part of a row in registers: Width consecutive columns.
template <int Width>
struct RowPart {
  float value[Width];

  static __device__ RowPart zeros() {
    RowPart part;
    for (int i = 0; i < Width; ++i) part.value[i] = 0.0f;
    return part;
  }
  template <typename T>
  static __device__ RowPart load(const T* address) {
    const auto packed = Pack<T, Width>::load_constant(address);
    RowPart part;
#pragma unroll
    for (int i = 0; i < Width; ++i) part.value[i] = to_f32(packed.value[i]);
    return part;
  }
  template <typename T>
  __device__ void store(T* address) const {
    Pack<T, Width> packed;
#pragma unroll
    for (int i = 0; i < Width; ++i) packed.value[i] = from_f32<T>(value[i]);
    packed.store(address);
  }
  __device__ void add(const RowPart& other, float scale) {
    for (int i = 0; i < Width; ++i) value[i] += scale * other.value[i];
  }
  __device__ void multiply(float scale) {
    for (int i = 0; i < Width; ++i) value[i] *= scale;
  }
};

__device__ inline float scale_of(const float* scales, Count i) {
  return scales == nullptr ? 1.0f : __ldg(scales + i);
}

// Lanes threads share a row and take Lanes * Width of its columns; a longer row is several items. Every
// in-row is read in one or few coalesced requests. Reading edges * cols * 4 bytes from L2 or HBM bounds the
// time.
template <int Width, int Lanes, typename In, typename Out>
__global__ void __launch_bounds__(kBlockThreads) sparse_sum_kernel(SparseSumOf<In, Out> sum, Count chunks) {
  const Count thread = static_cast<Count>(blockIdx.x) * kBlockThreads + threadIdx.x;
  const Count item = thread / Lanes;
  const Count row = item / chunks;
  const Count column = ((item % chunks) * Lanes + thread % Lanes) * Width;
  if (row >= sum.rows || column >= sum.cols) return;

  RowPart<Width> total = RowPart<Width>::zeros();
  const Count end = __ldg(sum.indptr + row + 1);
  Count e = __ldg(sum.indptr + row);
  for (; e + kEdgesInFlight <= end; e += kEdgesInFlight) {
    RowPart<Width> parts[kEdgesInFlight];
    float scales[kEdgesInFlight];
    bool counts[kEdgesInFlight];
#pragma unroll
    for (int i = 0; i < kEdgesInFlight; ++i) {
      const Count source = __ldg(sum.indices + e + i);
      parts[i] = RowPart<Width>::load(sum.in_row(source) + column);
      scales[i] = scale_of(sum.col_scale, source) * scale_of(sum.edge_scale, e + i);
      counts[i] = !sum.skips_loops || source != row;
    }
#pragma unroll
    for (int i = 0; i < kEdgesInFlight; ++i)
      if (counts[i]) total.add(parts[i], scales[i]);
  }
  for (; e < end; ++e) {
    const Count source = __ldg(sum.indices + e);
    if (sum.skips_loops && source == row) continue;
    total.add(RowPart<Width>::load(sum.in_row(source) + column),
              scale_of(sum.col_scale, source) * scale_of(sum.edge_scale, e));
  }
  total.multiply(scale_of(sum.row_scale, row));
  if (row < sum.num_self) {
    const auto own = RowPart<Width>::load(sum.self_row(row) + column);
    if (sum.beside)
      own.store(sum.out_row(row) + sum.cols + column);
    else
      total.add(own, scale_of(sum.self_scale, row));
  }
  total.store(sum.out_row(row) + column);
}

unsigned grid_for(Count threads) {
  return static_cast<unsigned>((threads + kBlockThreads - 1) / kBlockThreads);
}

template <int Width, int Lanes, typename In, typename Out>
void launch_sparse_sum(const SparseSumOf<In, Out>& sum, cudaStream_t stream) {
  const Count chunks = (sum.cols + Lanes * Width - 1) / (Lanes * Width);
  sparse_sum_kernel<Width, Lanes, In, Out>
      <<<grid_for(sum.rows * chunks * Lanes), kBlockThreads, 0, stream>>>(sum, chunks);
  cuda::check_launch("sparse_sum");
}

template <typename In, typename Out>
void sum_rows(const SparseSumOf<In, Out>& sum, cudaStream_t stream) {
  if (sum.rows == 0 || sum.cols == 0) return;
  const auto launch = [&]<int Width, int Lanes>() { launch_sparse_sum<Width, Lanes>(sum, stream); };
  with_widest_packs<In>(sum.cols, launch, sum.in, sum.self, sum.out);
}

__global__ void __launch_bounds__(kBlockThreads) mean_scales_kernel(Scales block, float* inverse) {
  const Count v = static_cast<Count>(blockIdx.x) * kBlockThreads + threadIdx.x;
  if (v >= block.num_dst) return;
  const Count count = block.indptr[v + 1] - block.indptr[v];
  inverse[v] = count == 0 ? 0.0f : 1.0f / static_cast<float>(count);
}

__global__ void __launch_bounds__(kBlockThreads)
    gcn_scales_kernel(Scales block, float* row, float* col, float* self) {
  const Count u = static_cast<Count>(blockIdx.x) * kBlockThreads + threadIdx.x;
  if (u >= block.num_src) return;
  const float degree = static_cast<float>(block.in_degrees[u]) + 1.0f;
  const float norm = 1.0f / sqrtf(degree);
  col[u] = norm;
  if (u >= block.num_dst) return;
  const float neighbors = neighbor_weight(block, u);
  row[u] = neighbors == 0 ? 0.0f : static_cast<float>(block.in_degrees[u]) / neighbors * norm;
  self[u] = 1.0f / degree;
}

/// The eight columns that share a Philox block: row and first column of a thread.
struct Group {
  Count row, column;
  std::uint32_t index;

  __device__ Group(Count thread, Count groups) {
    if (thread < (Count{1} << 31)) {  // division is several times faster with 32 bits
      row = static_cast<std::uint32_t>(thread) / static_cast<std::uint32_t>(groups);
    } else {
      row = thread / groups;
    }
    index = static_cast<std::uint32_t>(thread - row * groups);
    column = Count{index} * kColumnsPerWords;
  }
};

__device__ inline Philox4 group_words(const DropoutRule& rule, const Group& group) {
  const Philox4 keyed = rule.words(RandomUse::dropout, group.row);
  return dropout_words(keyed, group.index);
}

// One thread per eight columns: bias, ReLU and dropout in one pass of 8 bytes per element, with two Philox
// blocks per thread.
template <typename T>
__device__ inline float activated(const ActivationOf<T>& a, const Philox4& words, Count column, int i,
                                  float value, float scale) {
  if (a.bias != nullptr) value = __fadd_rn(value, a.bias[column + i]);
  if (a.relu) value = value < 0.0f ? 0.0f : value;
  if (a.dropout.active()) value = keeps(words, i, a.dropout.threshold) ? value * scale : 0.0f;
  return value;
}

/// The number of elements of a load of 16 bytes.
template <typename T>
constexpr int kPartWidth = 16 / sizeof(T);

// kWhole: rows consist of whole groups that are aligned to 16 bytes, so that a thread loads its group at
// once.
template <bool kWhole, typename T>
__global__ void __launch_bounds__(kBlockThreads)
    activate_kernel(ActivationOf<T> a, Count groups, float scale) {
  const Group group(static_cast<Count>(blockIdx.x) * kBlockThreads + threadIdx.x, groups);
  if (group.row >= a.rows) return;
  T* values = a.values + group.row * a.cols + group.column;
  using Part = Pack<T, kPartWidth<T>>;
  constexpr int kParts = kColumnsPerWords / kPartWidth<T>;
  Part parts[kParts];
  if constexpr (kWhole) {
#pragma unroll
    for (int i = 0; i < kParts; ++i) parts[i] = Part::load(values + i * kPartWidth<T>);
  }
  Philox4 words{};
  if (a.dropout.active()) words = group_words(a.dropout, group);
#pragma unroll
  for (int i = 0; i < kColumnsPerWords; ++i) {
    if constexpr (kWhole) {
      T& value = parts[i / kPartWidth<T>].value[i % kPartWidth<T>];
      value = from_f32<T>(activated(a, words, group.column, i, to_f32(value), scale));
    } else if (group.column + i < a.cols) {
      values[i] = from_f32<T>(activated(a, words, group.column, i, to_f32(values[i]), scale));
    }
  }
  if constexpr (kWhole) {
#pragma unroll
    for (int i = 0; i < kParts; ++i) parts[i].store(values + i * kPartWidth<T>);
  }
}

template <typename T>
__global__ void __launch_bounds__(kBlockThreads) activation_grad_kernel(ActivationGradOf<T> grad) {
  const Count size = grad.rows * grad.cols;
  const Count step = static_cast<Count>(gridDim.x) * kBlockThreads;
  for (Count i = static_cast<Count>(blockIdx.x) * kBlockThreads + threadIdx.x; i < size; i += step) {
    const float scaled = to_f32(grad.grad_out[i]) * grad.scale;
    grad.grad_in[i] = from_f32<T>(to_f32(grad.output[i]) <= 0.0f ? 0.0f : scaled);
  }
}

__global__ void __launch_bounds__(kBlockThreads) dropout_kernel(Dropout d, Count groups, float scale) {
  const Group group(static_cast<Count>(blockIdx.x) * kBlockThreads + threadIdx.x, groups);
  if (group.row >= d.rows) return;
  const Philox4 words = group_words(d.rule, group);
  const Count base = group.row * d.cols;
#pragma unroll
  for (int i = 0; i < kColumnsPerWords; ++i) {
    const Count c = group.column + i;
    if (c >= d.cols) break;
    d.out[base + c] = keeps(words, i, d.rule.threshold) ? d.in[base + c] * scale : 0.0f;
  }
}

Count groups_of(Count cols) { return (cols + kColumnsPerWords - 1) / kColumnsPerWords; }

// These blocks are enough for several waves on any GPU; a thread strides over the rest.
constexpr Count kElementwiseBlocks = 4096;

template <typename T>
void launch_activate(const ActivationOf<T>& activation, cudaStream_t stream) {
  const Count groups = groups_of(activation.cols);
  if (activation.rows * groups == 0) return;
  const unsigned blocks = grid_for(activation.rows * groups);
  const float scale = activation.dropout.scale();
  if (activation.cols % kColumnsPerWords == 0 && pack_fits(kPartWidth<T>, activation.cols, activation.values))
    activate_kernel<true><<<blocks, kBlockThreads, 0, stream>>>(activation, groups, scale);
  else
    activate_kernel<false><<<blocks, kBlockThreads, 0, stream>>>(activation, groups, scale);
  cuda::check_launch("activate");
}

template <typename T>
void launch_activation_grad(const ActivationGradOf<T>& grad, cudaStream_t stream) {
  const Count size = grad.rows * grad.cols;
  if (size == 0) return;
  const Count blocks = std::min<Count>(grid_for(size), kElementwiseBlocks);
  activation_grad_kernel<<<static_cast<unsigned>(blocks), kBlockThreads, 0, stream>>>(grad);
  cuda::check_launch("activation_grad");
}

class CudaKernels final : public Kernels {
 public:
  void sparse_sum(const SparseSum& sum, CUstream_st* stream) const override { sum_rows(sum, stream); }
  void sparse_sum(const SparseSumToBf16& sum, CUstream_st* stream) const override { sum_rows(sum, stream); }
  void sparse_sum(const SparseSumBf16& sum, CUstream_st* stream) const override { sum_rows(sum, stream); }

  void mean_scales(const Scales& block, float* inverse, CUstream_st* stream) const override {
    if (block.num_dst == 0) return;
    mean_scales_kernel<<<grid_for(block.num_dst), kBlockThreads, 0, stream>>>(block, inverse);
    cuda::check_launch("mean_scales");
  }

  void gcn_scales(const Scales& block, float* row, float* col, float* self,
                  CUstream_st* stream) const override {
    if (block.num_src == 0) return;
    gcn_scales_kernel<<<grid_for(block.num_src), kBlockThreads, 0, stream>>>(block, row, col, self);
    cuda::check_launch("gcn_scales");
  }

  void activate(const Activation& a, CUstream_st* stream) const override { launch_activate(a, stream); }
  void activate(const ActivationBf16& a, CUstream_st* stream) const override { launch_activate(a, stream); }
  void activation_grad(const ActivationGrad& grad, CUstream_st* stream) const override {
    launch_activation_grad(grad, stream);
  }
  void activation_grad(const ActivationGradBf16& grad, CUstream_st* stream) const override {
    launch_activation_grad(grad, stream);
  }

  void dropout(const Dropout& dropout, CUstream_st* stream) const override {
    const Count groups = groups_of(dropout.cols);
    if (dropout.rows * groups == 0) return;
    dropout_kernel<<<grid_for(dropout.rows * groups), kBlockThreads, 0, stream>>>(dropout, groups,
                                                                                  dropout.rule.scale());
    cuda::check_launch("dropout");
  }
};

}  // namespace

const Kernels& cuda_kernels() {
  static const CudaKernels kernels;
  return kernels;
}

}  // namespace strata::nn
