// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "kernels/bf16.hpp"
#include "strata/util/random.hpp"
#include "strata/util/types.hpp"

struct CUstream_st;

/// Products of groups of rows with a matrix per group, on a GPU, in float32 without TF32. The rows of group g
/// are [ends[g - 1], ends[g]), and `ends` lies on the device: nothing of a launch depends on it, so that one
/// recorded launch serves all batches. Rows from ends[groups - 1] on belong to no group.
///
/// The bits of a result row, or of a group's weights, depend only on its own group.
namespace strata::nn {

/// out[row] = in[row] weights[g], or in[row] weights[g]^T if `transposed`; rows of no group become 0.
struct GroupedProduct {
  Count rows = 0, in_cols = 0, out_cols = 0;
  int groups = 0;
  const std::int32_t* ends = nullptr;  ///< [groups]
  const float* in = nullptr;           ///< [rows, in_cols]
  const float* weights =
      nullptr;  ///< [groups, in_cols, out_cols], or if transposed [groups, out_cols, in_cols]
  bool transposed = false;
  float* out = nullptr;  ///< [rows, out_cols]
};
void grouped_product_cuda(const GroupedProduct& product, CUstream_st* stream);

/// The rows of each group, cut into pieces of `piece_rows`, of which the last is shorter. Groups differ in size
/// by orders of magnitude, and blocks that sum a whole group would finish long after the others.
///
///     ends {5, 5, 6}, piece_rows 2: the pieces end at 2, 4, 5 (group 0), and 6 (group 2)
struct GroupPieces {
  Count rows = 0;
  int groups = 0;
  const std::int32_t* ends = nullptr;  ///< [groups]
  Count piece_rows = 0;

  STRATA_HOST_DEVICE Count count() const {
    return rows / piece_rows + groups;
  }  ///< at least as many as there are
};
/// Sets where each piece ends; those that do not exist end with the last one. piece_ends [count()].
void find_piece_ends_cuda(const GroupPieces& pieces, std::int32_t* piece_ends, CUstream_st* stream);

/// out[g] = sum of in[p] over the pieces of the group, in order; 0 for groups without rows.
template <typename T>
struct PieceSumOf {
  GroupPieces pieces;
  Count size = 0;         ///< of a matrix; for Bf16 a multiple of 8
  const T* in = nullptr;  ///< [pieces.count(), size]
  T* out = nullptr;       ///< [groups, size]
};
void add_pieces_cuda(const PieceSumOf<float>& sum, CUstream_st* stream);
void add_pieces_cuda(const PieceSumOf<Bf16>& sum, CUstream_st* stream);

/// out[g] = sum over the rows of the group of in[row]^T grads[row]. Rows are summed in pieces of a fixed size,
/// and these in order.
struct GroupedWeightGrad {
  Count rows = 0, in_cols = 0, out_cols = 0;
  int groups = 0;
  const std::int32_t* ends = nullptr;  ///< [groups]
  const float* in = nullptr;           ///< [rows, in_cols]
  const float* grads = nullptr;        ///< [rows, out_cols]
  float* scratch = nullptr;            ///< [pieces().count(), in_cols, out_cols]
  float* out = nullptr;                ///< [groups, in_cols, out_cols]

  /// Small matrices have more pieces, so that there are enough blocks.
  STRATA_HOST_DEVICE Count rows_of_piece() const { return in_cols * out_cols <= (1 << 16) ? 1024 : 8192; }
  STRATA_HOST_DEVICE GroupPieces pieces() const {
    return {.rows = rows, .groups = groups, .ends = ends, .piece_rows = rows_of_piece()};
  }
};
void grouped_weight_grad_cuda(const GroupedWeightGrad& grad, CUstream_st* stream);

}  // namespace strata::nn
