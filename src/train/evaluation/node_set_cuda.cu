// SPDX-License-Identifier: Apache-2.0
#include "evaluation/node_set.hpp"
#include "strata/cuda/check.cuh"

namespace strata::train {
namespace {

constexpr int kThreads = 256;

// One random read of 16 bytes per id.
__global__ void __launch_bounds__(kThreads)
    find_ranks_kernel(const RankedWord* words, const NodeId* ids, Count count, NodeId* ranks) {
  const Count i = static_cast<Count>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  const RankedWord word = words[ids[i] / RankedWord::kNodes];
  ranks[i] = word.rank(ids[i]);
}

}  // namespace

void find_ranks_cuda(const RankedWord* words, const NodeId* ids, Count count, NodeId* ranks,
                     CUstream_st* stream) {
  if (count == 0) return;
  find_ranks_kernel<<<static_cast<unsigned>((count + kThreads - 1) / kThreads), kThreads, 0, stream>>>(
      words, ids, count, ranks);
  cuda::check_launch("find_ranks");
}

}  // namespace strata::train
