#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels.hpp"
#include "parallel_cpu.hpp"

namespace strata::nn {
namespace {

constexpr Count kPrefetchEdges =
    6;  // rows asked for ahead: hides a memory access behind the sums of six rows
constexpr Count kPrefetchLines = 16;  // of a row; the hardware follows a longer one by itself
inline void prefetch_row(const float* row, Count cols) {
  const Count lines = std::min<Count>((cols + 15) / 16, kPrefetchLines);
  for (Count line = 0; line < lines; ++line) __builtin_prefetch(row + line * 16);
}

inline void add_edges(const SparseSum& sum, Count row, float* __restrict out) {
  const Count ahead_end = sum.indptr[sum.rows] - kPrefetchEdges;
  for (Count e = sum.indptr[row]; e < sum.indptr[row + 1]; ++e) {
    if (e < ahead_end) prefetch_row(sum.in + sum.indices[e + kPrefetchEdges] * sum.cols, sum.cols);
    const std::int32_t i = sum.indices[e];
    const float* __restrict in = sum.in + i * sum.cols;
    if (sum.col_scale == nullptr) {
      for (Count c = 0; c < sum.cols; ++c) out[c] += in[c];
    } else {
      const float scale = sum.col_scale[i];
      for (Count c = 0; c < sum.cols; ++c) out[c] += scale * in[c];
    }
  }
}

inline void finish_row(const SparseSum& sum, Count row, float* __restrict out) {
  if (sum.row_scale != nullptr) {
    const float scale = sum.row_scale[row];
    for (Count c = 0; c < sum.cols; ++c) out[c] *= scale;
  }
  if (row >= sum.num_self) return;
  const float* __restrict self = sum.self + row * sum.cols;
  const float scale = sum.self_scale == nullptr ? 1.0f : sum.self_scale[row];
  for (Count c = 0; c < sum.cols; ++c) out[c] += scale * self[c];
}

constexpr Count kGroups = 32;  // Philox blocks made at once: 256 columns

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

/// out = in where kept, times the scale, else 0.
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

inline void activate_row(const Activation& a, Count row) {
  float* __restrict values = a.values + row * a.cols;
  if (a.bias != nullptr) {
    for (Count c = 0; c < a.cols; ++c) values[c] += a.bias[c];
  }
  if (a.relu) {
    for (Count c = 0; c < a.cols; ++c) values[c] = values[c] < 0.0f ? 0.0f : values[c];
  }
  if (a.dropout.active()) drop_row(a.dropout, row, a.cols, values, values);
}

class CpuKernels final : public Kernels {
 public:
  void sparse_sum(const SparseSum& sum, CUstream_st*) const override {
    if (sum.rows == 0 || sum.cols == 0) return;
    for_edges(sum.indptr, sum.rows, sum.cols, [&sum](Count begin, Count end) {
      for (Count row = begin; row < end; ++row) {
        float* out = sum.out + row * sum.cols;
        std::fill(out, out + sum.cols, 0.0f);
        add_edges(sum, row, out);
        finish_row(sum, row, out);
      }
    });
  }

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
      const Count count = block.indptr[u + 1] - block.indptr[u];
      row[u] =
          count == 0 ? 0.0f : static_cast<float>(block.in_degrees[u]) / static_cast<float>(count) * col[u];
      self[u] = 1.0f / degree;
    }
  }

  void activate(const Activation& activation, CUstream_st*) const override {
    for_rows(activation.rows, activation.cols, [&activation](Count begin, Count end) {
      for (Count row = begin; row < end; ++row) activate_row(activation, row);
    });
  }

  void activation_grad(const ActivationGrad& grad, CUstream_st*) const override {
    for_rows(grad.rows, grad.cols, [&grad](Count begin, Count end) {
      const float* __restrict output = grad.output;
      const float* __restrict grad_out = grad.grad_out;
      float* __restrict grad_in = grad.grad_in;
      for (Count i = begin * grad.cols; i < end * grad.cols; ++i) {
        const float scaled = grad_out[i] * grad.scale;
        grad_in[i] = output[i] <= 0.0f ? 0.0f : scaled;
      }
    });
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
