// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>

#include "kernels/kernels.hpp"
#include "strata/util/types.hpp"

struct CUstream_st;

/// The kernels of a SAGE layer with mean aggregation besides its matrix products. Each row of a result
/// depends only on its own edges, summed in their order. Elements are float or Bf16; sums are f32.
namespace strata::nn {

/// In-edges of dst nodes, as a Block has them: packed (indptr), or counts[i] entries from i * stride on.
struct InEdges {
  const Count* indptr = nullptr;
  const std::int32_t* counts = nullptr;
  int stride = 0;
  const std::int32_t* indices = nullptr;
};

/// Rows that may be a hidden layer's output, to which ReLU and dropout are applied when they are read.
struct HiddenRows {
  bool relu = false;
  DropoutRule dropout;
};

/// out[v] = [ mean or sum of the in-neighbors' rows | own row ]: the input of a single product with [W_l |
/// W_r].
template <typename In, typename Out>
struct MeanConcatOf {
  Count rows = 0, cols = 0;
  const In* in = nullptr;
  Count in_pitch = 0;      ///< elements
  HiddenRows hidden = {};  ///< indices are then rows of `in` and of hidden.dropout.ids
  InEdges edges;
  bool mean = true;                 ///< else sums
  const NodeId* own_ids = nullptr;  ///< [rows] indices of the own rows, -1: zeros; null: 0, 1, ...
  Out* out = nullptr;               ///< [rows, 2 * cols]
};

/// The gradient of a hidden layer's product, from that of the MeanConcat that read it:
///
///     out[u] = sum over the out-edges (u, v) of grad[v, :cols] / |in-edges of v|
///              + grad[u, cols:2 cols] if u is a dst node,
///
/// times the scale of dropout if ReLU and dropout let `product` pass, else 0. Without `mean` nothing is
/// divided.
template <typename T>
struct GatedMeanGradOf {
  static constexpr Count kRowsOfPiece = 64;

  Count rows = 0, cols = 0, num_dst = 0;
  const Count* transposed_indptr = nullptr;
  const std::int32_t* transposed_indices = nullptr;
  InEdges edges;               ///< only the lengths of the lists are read
  const T* grad = nullptr;     ///< [num_dst, 2 * cols]
  const T* product = nullptr;  ///< [rows, cols], including the bias; null: everything passes
  HiddenRows hidden = {};
  bool mean = true;             ///< else the gradient of sums
  T* out = nullptr;             ///< [rows, cols]
  float* piece_sums = nullptr;  ///< [num_pieces(), cols] sums of `out` over kRowsOfPiece rows each; or null

  Count num_pieces() const { return (rows + kRowsOfPiece - 1) / kRowsOfPiece; }
};

/// The gradients of a layer's parameters, and where they are added.
struct ParameterGrads {
  Count out_cols = 0, in_cols = 0;
  const float* joined = nullptr;  ///< [out_cols, 2 * in_cols]: of [W_l | W_r]
  Count num_pieces = 0;
  const float* piece_sums = nullptr;            ///< [num_pieces, out_cols]: of the bias
  float *neighbors = nullptr, *root = nullptr;  ///< [out_cols, in_cols], added to
  float* bias = nullptr;                        ///< [out_cols], added to
};

/// The weights of a layer, concatenated: [W_l | W_r].
template <typename T>
struct JoinedWeightsOf {
  Count out_cols = 0, in_cols = 0;
  const float *neighbors = nullptr, *root = nullptr;  ///< [out_cols, in_cols]
  T* joined = nullptr;                                ///< [out_cols, 2 * in_cols]
};

/// Most layers of one launch.
inline constexpr int kMaxSageLayers = 8;
template <typename Layer>
struct SageLayers {
  int count = 0;
  std::array<Layer, kMaxSageLayers> layers;
};

template <typename In, typename Out>
void mean_concat(const MeanConcatOf<In, Out>& task, CUstream_st* stream);
template <typename T>
void gated_mean_grad(const GatedMeanGradOf<T>& task, CUstream_st* stream);
template <typename T>
void join_weights(const SageLayers<JoinedWeightsOf<T>>& layers, CUstream_st* stream);
void add_parameter_grads(const SageLayers<ParameterGrads>& layers, CUstream_st* stream);

}  // namespace strata::nn
