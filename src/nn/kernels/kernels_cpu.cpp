// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "kernels/kernels.hpp"
#include "kernels/parallel_cpu.hpp"

namespace strata::nn {
namespace {

// rows to prefetch, which hides a memory access behind the sums of six rows
constexpr Count kPrefetchEdges = 6;
constexpr Count kPrefetchLines = 16;  // per row; the hardware prefetches the rest of longer rows
template <typename T>
inline void prefetch_row(const T* row, Count cols) {
  constexpr Count kLine = 64 / sizeof(T);
  const Count lines = std::min<Count>((cols + kLine - 1) / kLine, kPrefetchLines);
  for (Count line = 0; line < lines; ++line) __builtin_prefetch(row + line * kLine);
}

template <typename In, typename Out>
inline void add_edges(const SparseSumOf<In, Out>& sum, Count row, float* __restrict out) {
  const Count ahead_end = sum.indptr[sum.rows] - kPrefetchEdges;
  for (Count e = sum.indptr[row]; e < sum.indptr[row + 1]; ++e) {
    if (e < ahead_end) prefetch_row(sum.in_row(sum.indices[e + kPrefetchEdges]), sum.cols);
    const std::int32_t i = sum.indices[e];
    if (sum.skips_loops && i == row) continue;
    const In* __restrict in = sum.in_row(i);
    if (sum.col_scale == nullptr && sum.edge_scale == nullptr) {
      for (Count c = 0; c < sum.cols; ++c) out[c] += to_f32(in[c]);
    } else {
      const float scale = (sum.col_scale == nullptr ? 1.0f : sum.col_scale[i]) *
                          (sum.edge_scale == nullptr ? 1.0f : sum.edge_scale[e]);
      for (Count c = 0; c < sum.cols; ++c) out[c] += scale * to_f32(in[c]);
    }
  }
}

template <typename In, typename Out>
inline void finish_row(const SparseSumOf<In, Out>& sum, Count row, float* __restrict out) {
  if (sum.row_scale != nullptr) {
    const float scale = sum.row_scale[row];
    for (Count c = 0; c < sum.cols; ++c) out[c] *= scale;
  }
  if (row >= sum.num_self || sum.beside) return;
  const In* __restrict self = sum.self_row(row);
  const float scale = sum.self_scale == nullptr ? 1.0f : sum.self_scale[row];
  for (Count c = 0; c < sum.cols; ++c) out[c] += scale * to_f32(self[c]);
}

template <typename In, typename Out>
inline void put_beside(const SparseSumOf<In, Out>& sum, Count row) {
  const In* __restrict self = sum.self_row(row);
  Out* __restrict out = sum.out_row(row) + sum.cols;
  for (Count c = 0; c < sum.cols; ++c) out[c] = from_f32<Out>(to_f32(self[c]));
}

/// Rows are summed in f32: in place if the result is f32, else in a buffer.
template <typename In, typename Out>
void sum_rows(const SparseSumOf<In, Out>& sum) {
  if (sum.rows == 0 || sum.cols == 0) return;
  for_edges(sum.indptr, sum.rows, sum.cols, [&sum](Count begin, Count end) {
    std::vector<float> beside(std::is_same_v<Out, float> ? 0 : at(sum.cols));
    for (Count row = begin; row < end; ++row) {
      float* total = beside.data();
      if constexpr (std::is_same_v<Out, float>) total = sum.out_row(row);
      std::fill_n(total, sum.cols, 0.0f);
      add_edges(sum, row, total);
      finish_row(sum, row, total);
      if constexpr (!std::is_same_v<Out, float>) {
        Out* __restrict out = sum.out_row(row);
        for (Count c = 0; c < sum.cols; ++c) out[c] = from_f32<Out>(total[c]);
      }
      if (sum.beside) put_beside(sum, row);
    }
  });
}

constexpr Count kGroups = 32;  // Philox blocks that are computed together: 256 columns

/// The 16-bit numbers of kGroups blocks, in the order of the columns.
struct MaskBits {
  std::uint16_t of_column[kGroups * kColumnsPerWords];

  inline void fill(const Philox4& row, Count first_group) {
    std::uint32_t w0[kGroups], w1[kGroups], w2[kGroups], w3[kGroups], words[kGroups * 4];
    for (Count g = 0; g < kGroups; ++g) {
      const Philox4 block = dropout_words(row, static_cast<std::uint32_t>(first_group + g));
      w0[g] = block.word[0], w1[g] = block.word[1], w2[g] = block.word[2], w3[g] = block.word[3];
    }
    for (Count g = 0; g < kGroups; ++g) {
      words[4 * g] = w0[g], words[4 * g + 1] = w1[g], words[4 * g + 2] = w2[g], words[4 * g + 3] = w3[g];
    }
    static_assert(std::endian::native == std::endian::little);
    std::memcpy(of_column, words, sizeof(words));
  }
};

/// out = in times the scale if kept, else 0.
inline void drop_row(const DropoutRule& rule, Count row, Count cols, const float* in, float* out) {
  const Philox4 keyed = rule.words(RandomUse::dropout, row);
  const float scale = rule.scale();
  constexpr Count kChunk = kGroups * kColumnsPerWords;
  MaskBits bits;
  for (Count first = 0; first < cols; first += kChunk) {
    bits.fill(keyed, first / kColumnsPerWords);
    const Count count = std::min(kChunk, cols - first);
    for (Count c = 0; c < count; ++c) {
      const float value = in[first + c] * scale;
      out[first + c] = bits.of_column[c] >= rule.threshold ? value : 0.0f;
    }
  }
}

/// values: the row in f32.
template <typename T>
inline void activate_row(const ActivationOf<T>& a, Count row, float* __restrict values) {
  if (a.bias != nullptr) {
    for (Count c = 0; c < a.cols; ++c) values[c] += a.bias[c];
  }
  if (a.relu) {
    for (Count c = 0; c < a.cols; ++c) values[c] = values[c] < 0.0f ? 0.0f : values[c];
  }
  if (a.dropout.active()) drop_row(a.dropout, row, a.cols, values, values);
}

template <typename T>
void activate_rows(const ActivationOf<T>& a) {
  for_rows(a.rows, a.cols, [&a](Count begin, Count end) {
    if constexpr (std::is_same_v<T, float>) {
      for (Count row = begin; row < end; ++row) activate_row(a, row, a.values + row * a.cols);
    } else {
      std::vector<float> beside(at(a.cols));
      for (Count row = begin; row < end; ++row) {
        T* __restrict values = a.values + row * a.cols;
        float* __restrict wide = beside.data();
        for (Count c = 0; c < a.cols; ++c) wide[c] = to_f32(values[c]);
        activate_row(a, row, wide);
        for (Count c = 0; c < a.cols; ++c) values[c] = from_f32<T>(wide[c]);
      }
    }
  });
}

template <typename T>
void activation_grads(const ActivationGradOf<T>& grad) {
  for_rows(grad.rows, grad.cols, [&grad](Count begin, Count end) {
    const T* __restrict output = grad.output;
    const T* __restrict grad_out = grad.grad_out;
    T* __restrict grad_in = grad.grad_in;
    for (Count i = begin * grad.cols; i < end * grad.cols; ++i) {
      const float scaled = to_f32(grad_out[i]) * grad.scale;
      grad_in[i] = from_f32<T>(to_f32(output[i]) <= 0.0f ? 0.0f : scaled);
    }
  });
}

class CpuKernels final : public Kernels {
 public:
  void sparse_sum(const SparseSum& sum, CUstream_st*) const override { sum_rows(sum); }
  void sparse_sum(const SparseSumToBf16& sum, CUstream_st*) const override { sum_rows(sum); }
  void sparse_sum(const SparseSumBf16& sum, CUstream_st*) const override { sum_rows(sum); }

  void mean_scales(const Scales& block, float* inverse, CUstream_st*) const override {
    for (Count v = 0; v < block.num_dst; ++v) {
      const Count count = block.indptr[v + 1] - block.indptr[v];
      inverse[v] = count == 0 ? 0.0f : 1.0f / static_cast<float>(count);
    }
  }

  void gcn_scales(const Scales& block, float* row, float* col, float* self, CUstream_st*) const override {
    for (Count u = 0; u < block.num_src; ++u) {
      const float degree = static_cast<float>(block.in_degrees[u]) + 1.0f;
      col[u] = 1.0f / std::sqrt(degree);
      if (u >= block.num_dst) continue;
      const float neighbors = neighbor_weight(block, u);
      row[u] = neighbors == 0 ? 0.0f : static_cast<float>(block.in_degrees[u]) / neighbors * col[u];
      self[u] = 1.0f / degree;
    }
  }

  void activate(const Activation& a, CUstream_st*) const override { activate_rows(a); }
  void activate(const ActivationBf16& a, CUstream_st*) const override { activate_rows(a); }
  void activation_grad(const ActivationGrad& grad, CUstream_st*) const override { activation_grads(grad); }
  void activation_grad(const ActivationGradBf16& grad, CUstream_st*) const override {
    activation_grads(grad);
  }

  void dropout(const Dropout& dropout, CUstream_st*) const override {
    for_rows(dropout.rows, dropout.cols, [&dropout](Count begin, Count end) {
      for (Count row = begin; row < end; ++row) {
        drop_row(dropout.rule, row, dropout.cols, dropout.in + row * dropout.cols,
                 dropout.out + row * dropout.cols);
      }
    });
  }
};

}  // namespace

const Kernels& cpu_kernels() {
  static const CpuKernels kernels;
  return kernels;
}

}  // namespace strata::nn
