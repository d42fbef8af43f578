// SPDX-License-Identifier: Apache-2.0
#include "kernels/grouped_product.hpp"
#include "kernels/lanes.cuh"
#include "strata/cuda/kernels.cuh"

namespace strata::nn {
namespace {

using cuda::kThreads;
using cuda::kWarp;

constexpr int kTile = 64;   // rows and columns of a block's result
constexpr int kDepth = 16;  // that a block reads at once
constexpr int kEach = 4;    // a thread has kEach x kEach elements
constexpr int kSide = kTile / kEach;
static_assert(kSide * kSide == kThreads);

/// A piece of a group's rows.
struct Piece {
  int group = -1;  ///< -1: there is no such piece
  Count first = 0, end = 0;
};

/// Piece `number` of the groups' rows, cut into pieces of `size` rows; all threads of a block get it.
__device__ Piece find_piece(const GroupPieces& pieces, Count number) {
  const auto [rows, groups, ends, size] = pieces;
  __shared__ Piece found;
  if (threadIdx.x == 0) found = {};
  __syncthreads();
  if (threadIdx.x < kWarp) {
    Count before = 0;  // pieces of the groups so far
    for (int first = 0; first < groups; first += kWarp) {
      const int g = first + static_cast<int>(threadIdx.x);
      const Count begin = g > 0 && g < groups ? ends[g - 1] : 0, end = g < groups ? ends[g] : begin;
      const Count own = g < groups ? (end - begin + size - 1) / size : 0;
      Count sum = own;
      for (int step = 1; step < kWarp; step *= 2) {
        const Count other = __shfl_up_sync(cuda::kAllLanes, sum, step);
        if (static_cast<int>(threadIdx.x) >= step) sum += other;
      }
      const Count place = number - (before + sum - own);
      if (place >= 0 && place < own) found = {g, begin + place * size, min(end, begin + (place + 1) * size)};
      before += __shfl_sync(cuda::kAllLanes, sum, kWarp - 1);
    }
  }
  __syncthreads();
  return found;
}

/// The product of two panels in shared memory, [kDepth][kTile] each, added to a thread's elements.
__device__ void multiply(const float (*left)[kTile + kEach], const float (*right)[kTile + kEach],
                         float (&sums)[kEach][kEach]) {
  const unsigned row = threadIdx.x / kSide * kEach, col = threadIdx.x % kSide * kEach;
#pragma unroll
  for (int k = 0; k < kDepth; ++k) {
    float a[kEach], b[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) a[i] = left[k][row + i], b[i] = right[k][col + i];
#pragma unroll
    for (int i = 0; i < kEach; ++i)
#pragma unroll
      for (int j = 0; j < kEach; ++j) sums[i][j] = fmaf(a[i], b[j], sums[i][j]);
  }
}

// A block has 64 rows of a group and 64 columns. It is compute bound where matrices are large.
__global__ void __launch_bounds__(kThreads) product_kernel(const GroupedProduct product) {
  __shared__ float left[kDepth][kTile + kEach], right[kDepth][kTile + kEach];
  const Piece piece = find_piece({product.rows, product.groups, product.ends, kTile}, blockIdx.x);
  if (piece.group < 0) return;
  const Count first_col = static_cast<Count>(blockIdx.y) * kTile;
  const float* const weights = product.weights + piece.group * product.in_cols * product.out_cols;
  const Count row_step = product.transposed ? 1 : product.out_cols,
              col_step = product.transposed ? product.in_cols : 1;
  float sums[kEach][kEach] = {};
  for (Count depth = 0; depth < product.in_cols; depth += kDepth) {
    for (int i = static_cast<int>(threadIdx.x); i < kTile * kDepth; i += kThreads) {
      const Count row = piece.first + i / kDepth, k = depth + i % kDepth;
      left[i % kDepth][i / kDepth] =
          row < piece.end && k < product.in_cols ? product.in[row * product.in_cols + k] : 0.0f;
      const int of_depth = product.transposed ? i % kDepth : i / kTile,
                of_cols = product.transposed ? i / kDepth : i % kTile;
      const Count col = first_col + of_cols, deep = depth + of_depth;
      right[of_depth][of_cols] = col < product.out_cols && deep < product.in_cols
                                     ? __ldg(weights + deep * row_step + col * col_step)
                                     : 0.0f;
    }
    __syncthreads();
    multiply(left, right, sums);
    __syncthreads();
  }
  const Count row = piece.first + threadIdx.x / kSide * kEach, col = first_col + threadIdx.x % kSide * kEach;
  for (int i = 0; i < kEach; ++i)
    for (int j = 0; j < kEach; ++j)
      if (row + i < piece.end && col + j < product.out_cols)
        product.out[(row + i) * product.out_cols + col + j] = sums[i][j];
}

// A block has 64 x 64 elements of the product of a piece of a group's rows.
__global__ void __launch_bounds__(kThreads) weight_grad_kernel(const GroupedWeightGrad grad) {
  __shared__ float left[kDepth][kTile + kEach], right[kDepth][kTile + kEach];
  const Count number = blockIdx.x;
  const Piece piece = find_piece(grad.pieces(), number);
  if (piece.group < 0) return;
  const Count col_tiles = (grad.out_cols + kTile - 1) / kTile;
  const Count first_in = blockIdx.y / col_tiles * kTile, first_out = blockIdx.y % col_tiles * kTile;
  float sums[kEach][kEach] = {};
  for (Count first = piece.first; first < piece.end; first += kDepth) {
    for (int i = static_cast<int>(threadIdx.x); i < kTile * kDepth; i += kThreads) {
      const Count row = first + i / kTile, in = first_in + i % kTile, out = first_out + i % kTile;
      left[i / kTile][i % kTile] =
          row < piece.end && in < grad.in_cols ? grad.in[row * grad.in_cols + in] : 0.0f;
      right[i / kTile][i % kTile] =
          row < piece.end && out < grad.out_cols ? grad.grads[row * grad.out_cols + out] : 0.0f;
    }
    __syncthreads();
    multiply(left, right, sums);
    __syncthreads();
  }
  float* const scratch = grad.scratch + number * grad.in_cols * grad.out_cols;
  const Count in = first_in + threadIdx.x / kSide * kEach, out = first_out + threadIdx.x % kSide * kEach;
  for (int i = 0; i < kEach; ++i)
    for (int j = 0; j < kEach; ++j)
      if (in + i < grad.in_cols && out + j < grad.out_cols)
        scratch[(in + i) * grad.out_cols + out + j] = sums[i][j];
}

// One block per piece.
__global__ void __launch_bounds__(kThreads)
    find_piece_ends_kernel(const GroupPieces pieces, std::int32_t* piece_ends) {
  const Piece piece = find_piece(pieces, blockIdx.x);
  if (threadIdx.x > 0) return;
  piece_ends[blockIdx.x] =
      piece.group < 0 ? pieces.ends[pieces.groups - 1] : static_cast<std::int32_t>(piece.end);
}

// A thread has Width neighboring elements of a group's matrix. Reading the pieces once bounds the time.
template <typename T, int Width>
__global__ void __launch_bounds__(kThreads) add_pieces_kernel(const PieceSumOf<T> sum) {
  const auto [rows, groups, ends, piece_rows] = sum.pieces;
  const int group = static_cast<int>(blockIdx.y);
  __shared__ Count shared_first;
  if (threadIdx.x == 0) {
    Count first = 0;
    for (int g = 0; g < group; ++g)
      first += (ends[g] - (g > 0 ? ends[g - 1] : 0) + piece_rows - 1) / piece_rows;
    shared_first = first;
  }
  __syncthreads();
  const Count first = shared_first,
              pieces = (ends[group] - (group > 0 ? ends[group - 1] : 0) + piece_rows - 1) / piece_rows;
  for (Count i = (static_cast<Count>(blockIdx.x) * kThreads + threadIdx.x) * Width; i < sum.size;
       i += static_cast<Count>(gridDim.x) * kThreads * Width) {
    auto total = Floats<Width>::filled(0.0f);
#pragma unroll 4
    for (Count p = 0; p < pieces; ++p)
      add_scaled(total, load_as_f32<Width>(sum.in + (first + p) * sum.size + i), 1.0f);
    store_f32(total, sum.out + group * sum.size + i);
  }
}

template <typename T, int Width>
void launch_add_pieces(const PieceSumOf<T>& sum, CUstream_st* stream) {
  if (sum.size == 0 || sum.pieces.groups == 0) return;
  constexpr Count kMostBlocks = 256;  // per group
  const Count blocks = std::min<Count>((sum.size / Width + kThreads - 1) / kThreads, kMostBlocks);
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(sum.pieces.groups));
  add_pieces_kernel<T, Width><<<grid, kThreads, 0, stream>>>(sum);
  cuda::check_launch("add_pieces_kernel");
}

unsigned tiles(Count size) { return static_cast<unsigned>((size + kTile - 1) / kTile); }

}  // namespace

void grouped_product_cuda(const GroupedProduct& product, CUstream_st* stream) {
  if (product.rows == 0 || product.out_cols == 0) return;
  cudaMemsetAsync(product.out, 0, at(product.rows * product.out_cols) * sizeof(float), stream);
  const Count pieces = product.rows / kTile + product.groups;
  product_kernel<<<dim3(static_cast<unsigned>(pieces), tiles(product.out_cols)), kThreads, 0, stream>>>(
      product);
  cuda::check_launch("product_kernel");
}

void grouped_weight_grad_cuda(const GroupedWeightGrad& grad, CUstream_st* stream) {
  if (grad.in_cols * grad.out_cols == 0 || grad.groups == 0) return;
  const GroupPieces pieces = grad.pieces();
  const dim3 blocks(static_cast<unsigned>(pieces.count()), tiles(grad.in_cols) * tiles(grad.out_cols));
  weight_grad_kernel<<<blocks, kThreads, 0, stream>>>(grad);
  cuda::check_launch("weight_grad_kernel");
  add_pieces_cuda(
      PieceSumOf<float>{
          .pieces = pieces, .size = grad.in_cols * grad.out_cols, .in = grad.scratch, .out = grad.out},
      stream);
}

void find_piece_ends_cuda(const GroupPieces& pieces, std::int32_t* piece_ends, CUstream_st* stream) {
  if (pieces.groups == 0) return;
  find_piece_ends_kernel<<<static_cast<unsigned>(pieces.count()), kThreads, 0, stream>>>(pieces, piece_ends);
  cuda::check_launch("find_piece_ends_kernel");
}

void add_pieces_cuda(const PieceSumOf<float>& sum, CUstream_st* stream) {
  launch_add_pieces<float, 1>(sum, stream);
}
void add_pieces_cuda(const PieceSumOf<Bf16>& sum, CUstream_st* stream) {
  launch_add_pieces<Bf16, 8>(sum, stream);
}

}  // namespace strata::nn
