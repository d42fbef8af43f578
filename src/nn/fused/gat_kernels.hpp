// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "fused/sage_kernels.hpp"
#include "kernels/kernels.hpp"

/// The kernels of a training pass of a GAT layer besides its matrix products, if it sums before it maps.
/// A head's sum of p(u, v) (W rows[u]) is W times the sum of p(u, v) rows[u], and its scores are products of
/// rows with queries W^T a; `attention.hpp` defines p. So the rows of the many src nodes are neither mapped
/// nor written. Results are sums in a fixed order.
namespace strata::nn {

/// Columns 1 0 0 .. after the heads' sums: with them the gradient of the weights contains that of the bias,
/// and rows stay aligned to 16 bytes.
template <typename T>
constexpr std::int64_t kGatTail = 16 / sizeof(T);

/// What forward and backward read. In is float or Bf16.
///
/// The edges of dst nodes are numbered by places. Place (begin of the list of v) + v is node v itself; its
/// in-neighbors follow.
template <typename In>
struct GatInput {
  Count num_dst = 0, heads = 1, cols = 0;
  const In* in = nullptr;
  Count in_pitch = 0;    ///< elements
  NodeId first_row = 0;  ///< of `in`; see GatChunk::load()
  InEdges edges;
  const NodeId* own_ids = nullptr;  ///< [num_dst] indices of the own rows, -1: zeros; null: 0, 1, ...
  const float* queries = nullptr;   ///< [2, heads, cols], first of src, then of dst nodes
  DropoutRule dropout;              ///< of p; ids are those of the src nodes
};

/// out[v] = [ per head: sum of keep(u, v) p(u, v) in[u] | 1 0 0 ... ].
template <typename In, typename Out>
struct GatForward {
  GatInput<In> over;
  float* raw_scores = nullptr;  ///< [places, heads]; -inf for edges that do not count
  float* log_sums = nullptr;    ///< [num_dst, heads]
  Out* out = nullptr;           ///< [num_dst, heads * cols + kGatTail<Out>]
};

/// Computes the gradients of queries and rows from that of the sums. T is the type of the inputs of all
/// layers except the first.
template <typename In, typename T>
struct GatBackward {
  GatInput<In> over;
  const float* raw_scores = nullptr;
  const float* log_sums = nullptr;
  const T* out = nullptr;         ///< as forward wrote it
  const T* grad_out = nullptr;    ///< [num_dst, heads * cols]
  Count num_pieces = 0;           ///< gat_pieces(num_dst, cols)
  float* grad_queries = nullptr;  ///< [num_pieces, 2, heads, cols]; their sum is the gradient

  // The gradient of the layer below, before its ReLU and dropout. Null in the first layer, which needs none.
  T* grad_in = nullptr;                      ///< [num_src, cols]: only rows with one contribution are written
  T* edge_grads = nullptr;                   ///< [places, cols]: the contributions to all other rows
  const Count* transposed_indptr = nullptr;  ///< [num_src + 1]
  float scale = 1;                           ///< of the layer below's dropout
};

Count gat_pieces(Count num_dst, Count cols);

/// Sums the contributions to those rows of grad_in that GatBackward did not write.
template <typename T>
struct GatInputGrad {
  Count num_src = 0, num_dst = 0, cols = 0;
  const Count* transposed_indptr = nullptr;
  const std::int32_t* transposed_indices = nullptr;
  InEdges edges;
  const T* edge_grads = nullptr;
  T* grad_in = nullptr;
};

/// A layer's parameters: head h of `weight` are rows [h * head_cols, (h + 1) * head_cols).
struct GatParameters {
  Count heads = 1, head_cols = 0, cols = 0;
  const float* weight = nullptr;         ///< [heads * head_cols, cols]
  const float* attention_src = nullptr;  ///< [heads, head_cols]
  const float* attention_dst = nullptr;
};

/// Gradients of a layer's parameters from those of its queries and of its matrix product.
struct GatParameterGrads {
  GatParameters of;
  bool heads_averaged = false;  ///< the output is the mean of the heads, with head_cols columns
  Count num_pieces = 0;
  const float* grad_queries = nullptr;  ///< [num_pieces, 2, heads, cols]
  float* scratch = nullptr;             ///< [2, heads, cols]
  /// grad^T out, [output columns, heads * cols + tail]. If the heads are concatenated, only the columns of
  /// head h count in a row of head h.
  const float* product = nullptr;
  Count product_pitch = 0;
  float* weight = nullptr;
  float* attention_src = nullptr;
  float* attention_dst = nullptr;
  float* bias = nullptr;  ///< [output columns]
};

/// queries = W^T a, [2, heads, cols].
void gat_queries(const GatParameters& of, float* queries, CUstream_st* stream);

template <typename In, typename Out>
void gat_forward(const GatForward<In, Out>& pass, CUstream_st* stream);
template <typename In, typename T>
void gat_backward(const GatBackward<In, T>& pass, CUstream_st* stream);
template <typename T>
void gat_input_grad(const GatInputGrad<T>& task, CUstream_st* stream);
void gat_parameter_grads(const GatParameterGrads& task, CUstream_st* stream);

/// Whether the kernels can read rows of `cols` columns.
constexpr bool gat_takes(Count cols) { return cols % 4 == 0 ? cols <= 512 : cols <= 128; }

}  // namespace strata::nn
