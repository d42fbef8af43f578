#pragma once
#include <cstdint>

#include "strata/util/types.hpp"

struct CUstream_st;

/// What a SAGE layer with mean aggregation does on a GPU besides its matrix products. Results are functions
/// of their row alone, summed in the order of the edges.
namespace strata::nn {

/// In-edges of dst nodes, as a Block has them: packed (indptr), or counts[i] entries from i * stride on.
struct EdgeLists {
  const Count* indptr = nullptr;
  const std::int32_t* counts = nullptr;
  int stride = 0;
  const std::int32_t* indices = nullptr;
};

/// out[v] = [ mean of the in-neighbours' rows | own row | 1 0 0 0 ]: what one product with [W_l | W_r | b |
/// 0] turns into the layer's output, bias included. Zeros for the mean of no neighbours.
struct MeanConcat {
  static constexpr std::int64_t kTail = 4;  // keeps rows aligned to 16 bytes

  Count rows = 0, cols = 0;
  const float* in = nullptr;  ///< the row of index i is row i - first_row
  Count in_pitch = 0;         ///< floats
  NodeId first_row = 0;
  EdgeLists edges;
  const NodeId* own_ids = nullptr;  ///< [rows] indices of the own rows, -1: zeros; null: 0, 1, ...
  float* out = nullptr;             ///< [rows, 2 * cols + kTail]
};

/// The gradient of a hidden layer's pre-activation, from that of the MeanConcat that read its output:
///
///     out[u] = (sum over the out-edges (u, v) of grad[v, :cols] / |in-edges of v|  +  grad[u, cols:2 cols]
///     if u
///               is a dst node) * scale where output[u] > 0, else 0
struct GatedMeanGrad {
  Count rows = 0, cols = 0, num_dst = 0;
  const Count* transposed_indptr = nullptr;
  const std::int32_t* transposed_indices = nullptr;
  EdgeLists edges;                ///< of which only the lengths are read
  const float* grad = nullptr;    ///< [num_dst, 2 * cols]
  const float* output = nullptr;  ///< [rows, cols] after ReLU and dropout: its sign tells what they let pass
  float scale = 1;                ///< of dropout
  float* out = nullptr;           ///< [rows, cols]
};

void mean_concat(const MeanConcat& task, CUstream_st* stream);
void gated_mean_grad(const GatedMeanGrad& task, CUstream_st* stream);

}  // namespace strata::nn
