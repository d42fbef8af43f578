// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <cstdint>

#include "kernels/bf16.hpp"
#include "strata/nn/edge_ops.hpp"
#include "strata/util/random.hpp"
#include "strata/util/types.hpp"

struct CUstream_st;

/// The arithmetic of the layers over raw pointers, all on one device. It knows no tensors and allocates
/// nothing.
///
/// Each row of a result depends only on its own edges, summed in their order, and neither on the number of
/// threads nor on the shape of a launch.
namespace strata::nn {

/// A scaled sum over the edges e of each row r, with i = indices[e]:
///
///     out[r] = row_scale[r] * sum over e of edge_scale[e] * col_scale[i] * in[i]  +  self_scale[r] * self[r]
///
/// A null scale stands for ones. Mean aggregation is row_scale = 1 / count; its gradient is the same sum over
/// the transpose, with col_scale = 1 / count and the gradient of the dst rows as `self`.
///
/// In and Out are float or Bf16; sums are f32.
template <typename In, typename Out>
struct SparseSumOf {
  Count rows = 0, cols = 0;
  const Count* indptr = nullptr;  ///< [rows + 1]
  const std::int32_t* indices = nullptr;
  const In* in = nullptr;             ///< [.., cols]
  Count in_pitch = 0;                 ///< elements between rows of `in`, and of `self`: 0 (cols) or 2 * cols
  const float* edge_scale = nullptr;  ///< parallel to `indices`
  const float* row_scale = nullptr;   ///< [rows]
  const float* col_scale = nullptr;   ///< [rows of in]
  const In* self = nullptr;           ///< [num_self, cols], or null
  const float* self_scale = nullptr;  ///< [num_self]
  Count num_self = 0;                 ///< rows from this one on have no self part
  bool skips_loops = false;           ///< leaves out edges from a node to itself: indices[e] == row
  /// Whether self parts, which all rows have, follow the sums, unscaled, instead of being added.
  bool beside = false;
  Out* out = nullptr;  ///< [rows, cols], or [rows, 2 * cols] if `beside`

  STRATA_HOST_DEVICE const In* in_row(Count i) const { return in + i * pitch(); }
  STRATA_HOST_DEVICE const In* self_row(Count i) const { return self + i * pitch(); }
  STRATA_HOST_DEVICE Out* out_row(Count i) const { return out + i * (beside ? 2 * cols : cols); }

 private:
  STRATA_HOST_DEVICE Count pitch() const { return in_pitch == 0 ? cols : in_pitch; }
};
using SparseSum = SparseSumOf<float, float>;
using SparseSumToBf16 = SparseSumOf<float, Bf16>;
using SparseSumBf16 = SparseSumOf<Bf16, Bf16>;

/// The normalisation of a block, with one number per node.
struct Scales {
  Count num_dst = 0, num_src = 0;
  const Count* indptr = nullptr;             ///< [num_dst + 1]
  const std::int32_t* in_degrees = nullptr;  ///< [num_src] in the whole graph; null for mean_scales()
  // Only gcn_scales() reads these, to find self-loops.
  const std::int32_t* indices = nullptr;
  const float* edge_weights = nullptr;  ///< parallel to `indices`; null: all 1
};

/// The sum of the weights of dst node v's sampled in-edges without self-loops. A src node with the index v is
/// v itself, because src nodes begin with the dst nodes.
STRATA_HOST_DEVICE inline float neighbor_weight(const Scales& block, Count v) {
  const Count begin = block.indptr[v], end = block.indptr[v + 1];
  float weights = 0;
  Count loops = 0;
  for (Count e = begin; e < end; ++e) {
    if (block.indices[e] == v)
      ++loops;
    else if (block.edge_weights != nullptr)
      weights += block.edge_weights[e];
  }
  // Without loops weights are shares, whose sum is the number of edges.
  const bool counted = loops == 0 || block.edge_weights == nullptr;
  return counted ? static_cast<float>(end - begin - loops) : weights;
}

constexpr int kColumnsPerWords = 8;  ///< one Philox block serves eight columns with 16 bits each

/// The four words of columns [8 group, 8 group + 8): column 8 group + 2 w + h owns half h (low first) of word
/// w. `row` are the keyed words of the row's node.
STRATA_HOST_DEVICE inline Philox4 dropout_words(const Philox4& row, std::uint32_t group) {
  const std::uint64_t key = (static_cast<std::uint64_t>(row.word[1]) << 32) | row.word[0];
  return philox({{group, row.word[2], row.word[3], 0u}}, key);
}

/// values = dropout(relu(values + bias)) in place.
template <typename T>
struct ActivationOf {
  Count rows = 0, cols = 0;
  const float* bias = nullptr;  ///< [cols], or null
  bool relu = false;
  DropoutRule dropout;
  T* values = nullptr;
};
using Activation = ActivationOf<float>;
using ActivationBf16 = ActivationOf<Bf16>;

/// grad_in = grad_out * scale where output > 0, else 0: the sign of an output says whether ReLU and dropout
/// let it pass.
template <typename T>
struct ActivationGradOf {
  Count rows = 0, cols = 0;
  const T* output = nullptr;
  const T* grad_out = nullptr;
  float scale = 1;
  T* grad_in = nullptr;
};
using ActivationGrad = ActivationGradOf<float>;
using ActivationGradBf16 = ActivationGradOf<Bf16>;

/// out = dropout(in); also its own gradient.
struct Dropout {
  Count rows = 0, cols = 0;
  DropoutRule rule;
  const float* in = nullptr;
  float* out = nullptr;
};

/// The operations on one kind of device. The CPU ignores `stream`.
class Kernels {
 public:
  virtual ~Kernels() = default;
  virtual void sparse_sum(const SparseSum& sum, CUstream_st* stream) const = 0;
  virtual void sparse_sum(const SparseSumToBf16& sum, CUstream_st* stream) const = 0;
  virtual void sparse_sum(const SparseSumBf16& sum, CUstream_st* stream) const = 0;
  /// inverse[v] = 1 / (sampled in-neighbors of v), 0 if there are none.
  virtual void mean_scales(const Scales& block, float* inverse, CUstream_st* stream) const = 0;
  /// Sets the scales of gcn, for sums that skip loops: col[u] = 1/sqrt d(u), row[v] = in-degree/k/sqrt d(v),
  /// self[v] = 1/d(v), where d(v) = in-degree + 1 and k = sampled in-neighbors.
  virtual void gcn_scales(const Scales& block, float* row, float* col, float* self,
                          CUstream_st* stream) const = 0;
  virtual void activate(const Activation& activation, CUstream_st* stream) const = 0;
  virtual void activate(const ActivationBf16& activation, CUstream_st* stream) const = 0;
  virtual void activation_grad(const ActivationGrad& grad, CUstream_st* stream) const = 0;
  virtual void activation_grad(const ActivationGradBf16& grad, CUstream_st* stream) const = 0;
  virtual void dropout(const Dropout& dropout, CUstream_st* stream) const = 0;
};

const Kernels& cpu_kernels();
const Kernels& cuda_kernels();  ///< of the current device; CUDA builds only

}  // namespace strata::nn
