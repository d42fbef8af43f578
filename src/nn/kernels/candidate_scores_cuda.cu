// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "kernels/candidate_scores.hpp"
#include "kernels/lanes.cuh"
#include "strata/cuda/check.cuh"

namespace strata::nn {
namespace {

constexpr int kThreads = 256, kWarp = 32;
constexpr int kAtOnce = 4;          // candidates whose rows a group of threads reads together
constexpr Count kOfGroup = 32;      // candidates of one edge that a group takes
constexpr Count kBlocks = 1 << 20;  // at most; the rest follows in turn

unsigned blocks_for(Count groups, int lanes) {
  return static_cast<unsigned>(std::min(kBlocks, (groups * lanes + kThreads - 1) / kThreads));
}

template <typename T, int Width, int Lanes>
__device__ void score_four(const CandidateScores& s, Count edge, Count first, int lane) {
  const T* const rows = static_cast<const T*>(s.rows);
  const NodeId* const ids = s.ids + edge * s.candidates;
  NodeId id[kAtOnce];
  float sums[kAtOnce] = {};
#pragma unroll
  for (int j = 0; j < kAtOnce; ++j) id[j] = __ldg(ids + min(first + j, s.candidates - 1));
  for (Count c = lane * Width; c < s.cols; c += Lanes * Width) {
    const Floats<Width> query = load_as_f32<Width>(s.queries + edge * s.cols + c);
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j)
      sums[j] = dot(query, load_as_f32<Width>(rows + id[j] * s.cols + c), sums[j]);
  }
#pragma unroll
  for (int j = 0; j < kAtOnce; ++j) {
    const float score = sum_of_group<Lanes>(sums[j]);
    if (lane != j || first + j >= s.candidates) continue;
    const bool is_left_out = s.left_out != nullptr && id[j] == s.left_out[edge];
    s.out[edge * s.candidates + first + j] = is_left_out ? NAN : score;
  }
}

template <typename T, int Width, int Lanes>
__global__ void __launch_bounds__(kThreads) score(CandidateScores s, Count chunks) {
  const int lane = threadIdx.x % Lanes;
  const Count stride = static_cast<Count>(gridDim.x) * (kThreads / Lanes);
  for (Count item = static_cast<Count>(blockIdx.x) * (kThreads / Lanes) + threadIdx.x / Lanes;
       item < s.edges * chunks; item += stride) {
    const Count edge = item / chunks, begin = item % chunks * kOfGroup;
    const Count end = min(begin + kOfGroup, s.candidates);
    for (Count first = begin; first < end; first += kAtOnce)
      score_four<T, Width, Lanes>(s, edge, first, lane);
  }
}

template <typename T>
void score_as(const CandidateScores& s, CUstream_st* stream) {
  const Count chunks = (s.candidates + kOfGroup - 1) / kOfGroup;
  const auto launch = [&]<int Width, int Lanes>() {
    score<T, Width, Lanes><<<blocks_for(s.edges * chunks, Lanes), kThreads, 0, stream>>>(s, chunks);
    cuda::check_launch("score_candidates");
  };
  with_widest_packs<T>(s.cols, launch, s.queries, static_cast<const T*>(s.rows));
}

__global__ void __launch_bounds__(kThreads) count(ScoreCounts c) {
  const int lane = threadIdx.x % kWarp;
  const Count stride = static_cast<Count>(gridDim.x) * (kThreads / kWarp);
  for (Count edge = static_cast<Count>(blockIdx.x) * (kThreads / kWarp) + threadIdx.x / kWarp; edge < c.edges;
       edge += stride) {
    const float own = c.own[edge];
    unsigned above = 0, equal = 0;
#pragma unroll 4
    for (Count k = lane; k < c.candidates; k += kWarp) {
      const float score = __ldg(c.scores + edge * c.row_length + k);
      above += score > own ? 1 : 0;
      equal += score == own ? 1 : 0;
    }
    above = __reduce_add_sync(~0u, above);
    equal = __reduce_add_sync(~0u, equal);
    if (lane > 0) continue;
    c.above[edge] += above;
    c.equal[edge] += equal;
  }
}

}  // namespace

void score_candidates_cuda(const CandidateScores& scores, CUstream_st* stream) {
  scores.dtype == DType::bf16 ? score_as<Bf16>(scores, stream) : score_as<float>(scores, stream);
}

void count_scores_cuda(const ScoreCounts& counts, CUstream_st* stream) {
  count<<<blocks_for(counts.edges, kWarp), kThreads, 0, stream>>>(counts);
  cuda::check_launch("count_scores");
}

}  // namespace strata::nn
