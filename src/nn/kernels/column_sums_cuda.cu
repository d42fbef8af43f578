// SPDX-License-Identifier: Apache-2.0
#include "kernels/edge_kernels.hpp"
#include "strata/cuda/check.cuh"

namespace strata::nn {
namespace {

constexpr int kColumns = 32;  // of a block: a warp reads 128 bytes of a row
constexpr int kRows = 8;      // that a block reads at once

// Blocks take 32 columns of a piece of the rows. Reading the rows once bounds the time.
__global__ void __launch_bounds__(kColumns* kRows)
    sum_pieces(const float* in, Count rows, Count cols, Count rows_of_piece, float* out) {
  const Count column = static_cast<Count>(blockIdx.x) * kColumns + threadIdx.x;
  const Count begin = blockIdx.y * rows_of_piece;
  const Count end = min(rows, begin + rows_of_piece);
  float sum = 0.0f;
  if (column < cols) {
#pragma unroll 8
    for (Count row = begin + threadIdx.y; row < end; row += kRows) sum += __ldg(in + row * cols + column);
  }
  __shared__ float sums[kRows][kColumns];
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || column >= cols) return;
#pragma unroll
  for (int r = 1; r < kRows; ++r) sum += sums[r][threadIdx.x];
  out[blockIdx.y * cols + column] = sum;
}

}  // namespace

void column_sums_cuda(const ColumnSums& sums, CUstream_st* stream) {
  if (sums.cols == 0) return;
  const auto chunks = static_cast<unsigned>((sums.cols + kColumns - 1) / kColumns);
  const Count pieces = ColumnSums::pieces(sums.rows);
  const dim3 threads(kColumns, kRows);
  sum_pieces<<<dim3(chunks, static_cast<unsigned>(pieces)), threads, 0, stream>>>(
      sums.in, sums.rows, sums.cols, ColumnSums::rows_of_piece(sums.rows), sums.scratch);
  cuda::check_launch("sum_pieces");
  sum_pieces<<<dim3(chunks, 1), threads, 0, stream>>>(sums.scratch, pieces, sums.cols, pieces, sums.out);
  cuda::check_launch("sum_pieces");
}

}  // namespace strata::nn
