// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "optimizer/update.hpp"
#include "strata/cuda/check.cuh"

namespace strata::nn {
namespace {

constexpr int kBlockThreads = 256;
static_assert(kNormPieces == kBlockThreads, "the last block takes one piece per thread");

/// The sum over a block, in a tree whose shape never changes; valid in thread 0.
__device__ double sum_of_block(double value) {
  __shared__ double sums[kBlockThreads];
  sums[threadIdx.x] = value;
  for (unsigned width = kBlockThreads / 2; width > 0; width /= 2) {
    __syncthreads();
    if (threadIdx.x < width) sums[threadIdx.x] += sums[threadIdx.x + width];
  }
  return sums[0];
}

__global__ void __launch_bounds__(kBlockThreads) norm_pieces_kernel(Update update) {
  const int piece = static_cast<int>(blockIdx.x);
  double sum = 0;
  for (Count i = update.piece_begin(piece) + threadIdx.x; i < update.piece_begin(piece + 1);
       i += kBlockThreads)
    sum += static_cast<double>(update.gradients[i]) * static_cast<double>(update.gradients[i]);
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) update.norm_pieces[piece] = sum;
}

__global__ void __launch_bounds__(kBlockThreads) begin_kernel(Update update) {
  const double square = sum_of_block(update.needs_norm() ? update.norm_pieces[threadIdx.x] : 0.0);
  if (threadIdx.x == 0) update.begin(square);
}

// Adam reads 16 and writes 12 bytes per element.
__global__ void __launch_bounds__(kBlockThreads) update_kernel(Update update) {
  const UpdateScalars scalars = *update.scalars;
  if (scalars.skip != 0) return;
  const Count step = static_cast<Count>(gridDim.x) * kBlockThreads;
  for (Count i = static_cast<Count>(blockIdx.x) * kBlockThreads + threadIdx.x; i < update.count; i += step)
    update.element(i, scalars);
}

}  // namespace

void update_cuda(const Update& update, CUstream_st* stream) {
  if (update.needs_norm()) {
    norm_pieces_kernel<<<kNormPieces, kBlockThreads, 0, stream>>>(update);
    cuda::check_launch("norm_pieces");
  }
  begin_kernel<<<1, kBlockThreads, 0, stream>>>(update);
  cuda::check_launch("begin_update");
  if (update.count == 0) return;
  constexpr Count kMaxBlocks = 2048;  // a thread strides over the rest
  const Count blocks = std::min((update.count + kBlockThreads - 1) / kBlockThreads, kMaxBlocks);
  update_kernel<<<static_cast<unsigned>(blocks), kBlockThreads, 0, stream>>>(update);
  cuda::check_launch("update");
}

}  // namespace strata::nn
