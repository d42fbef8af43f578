// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "fused/gat_rows.cuh"
#include "strata/cuda/check.cuh"

namespace strata::nn {
namespace {

constexpr int kThreads = 128;
constexpr int kBlocksOfSm = 4;          // 3 and 5 are slower
constexpr Count kMaxBlocks = 132 * 32;  // a warp takes many nodes, because it holds the queries in registers

// One warp per dst node. Every row is read once per group of heads, for its scores and for the sums; the
// softmax is corrected if a later chunk has a larger score. Reading the rows from L2 or HBM and writing `out`
// bound the time.
template <int Width, int kVectors, int kHeads, typename In, typename Out>
__global__ void __launch_bounds__(kThreads, kBlocksOfSm)
    forward_kernel(GatForward<In, Out> pass, float scale) {
  constexpr int kRows = kChunkRows<Width, kVectors>;
  using Part = GatColumns<Width, kVectors>;
  using Scores = ScoreLanes<kRows, kHeads>;
  const GatInput<In>& over = pass.over;
  const Count out_pitch = over.heads * over.cols + kGatTail<Out>;
  const float* dst_queries = over.queries + over.heads * over.cols;
  for (Count first = 0; first < over.heads; first += kHeads) {
    const Count head = first + Scores::head();
    const auto query = [&](const float* queries, int h) {
      return first + h < over.heads ? Part::load(queries + (first + h) * over.cols, 0, over.cols)
                                    : Part::zeros();
    };
    Part queries[kHeads];
#pragma unroll
    for (int h = 0; h < kHeads; ++h) queries[h] = query(over.queries, h);
    for (Count v = first_warp(); v < over.num_dst; v += num_warps()) {
      const GatList list(over, v);
      const Philox4 key = over.dropout.active() ? edge_key(over.dropout, v) : Philox4{};
      Part sums[kHeads];
#pragma unroll
      for (int h = 0; h < kHeads; ++h) sums[h] = Part::zeros();
      float dst_score = 0.0f, largest = -INFINITY, total = 0.0f;
      for (Count begin = 0; begin < list.size(); begin += kRows) {
        GatChunk<Width, kVectors, kRows> chunk;
        chunk.load(over, list, begin);
        if (begin == 0) {
          float shares[kHeads];
#pragma unroll
          for (int h = 0; h < kHeads; ++h) shares[h] = chunk.rows[0].dot_share(query(dst_queries, h));
          dst_score = HeadLanes<kHeads>::get(HeadLanes<kHeads>::sum_over_lanes(shares), 0, Scores::head());
        }
        float shares[Scores::kValues];
#pragma unroll
        for (int i = 0; i < Scores::kValues; ++i)
          shares[i] = chunk.rows[i / kHeads].dot_share(queries[i % kHeads]);
        float raw = Scores::sum_over_lanes(shares) + dst_score;
        const Count u = __shfl_sync(~0u, chunk.index, Scores::row());
        if (Scores::row() >= chunk.num || (begin + Scores::row() > 0 && u == list.own)) raw = -INFINITY;
        if (Scores::leads() && Scores::row() < chunk.num && head < over.heads)
          pass.raw_scores[list.place(begin + Scores::row()) * over.heads + head] = raw;

        const float score = leaky_relu(raw), before = largest;
        largest = fmaxf(before, Scores::max_over_rows(score));
        const float p = expf(score - largest), correction = expf(before - largest);
        total = total * correction + Scores::sum_over_rows(p);
        const float weight = p == 0.0f ? 0.0f : p * gat_kept(over, key, u, head, scale);
        if (begin > 0) {
#pragma unroll
          for (int h = 0; h < kHeads; ++h) sums[h].multiply(Scores::get(correction, 0, h));
        }
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          if (i >= chunk.num) continue;
#pragma unroll
          for (int h = 0; h < kHeads; ++h) sums[h].add(chunk.rows[i], Scores::get(weight, i, h));
        }
      }
      if (Scores::leads() && Scores::row() == 0 && head < over.heads)
        pass.log_sums[v * over.heads + head] = largest + logf(total);
      Out* out = pass.out + v * out_pitch;
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        sums[h].multiply(1.0f / Scores::get(total, 0, h));
        if (first + h < over.heads) sums[h].store(out + (first + h) * over.cols, 0, over.cols);
      }
      if (first == 0 && lane() < kGatTail<Out>)
        out[over.heads * over.cols + lane()] = from_f32<Out>(lane() == 0 ? 1.0f : 0.0f);
    }
  }
}

// One block per query; W is read twice.
__global__ void __launch_bounds__(kThreads) queries_kernel(GatParameters of, float* queries) {
  const Count head = blockIdx.x % of.heads;
  const float* attention = blockIdx.x < of.heads ? of.attention_src : of.attention_dst;
  for (Count c = threadIdx.x; c < of.cols; c += kThreads) {
    float sum = 0.0f;
#pragma unroll 8
    for (Count i = head * of.head_cols; i < (head + 1) * of.head_cols; ++i)
      sum += __ldg(attention + i) * __ldg(of.weight + i * of.cols + c);
    queries[blockIdx.x * of.cols + c] = sum;
  }
}

}  // namespace

void gat_queries(const GatParameters& of, float* queries, CUstream_st* stream) {
  queries_kernel<<<static_cast<unsigned>(2 * of.heads), kThreads, 0, stream>>>(of, queries);
  cuda::check_launch("gat_queries");
}

template <typename In, typename Out>
void gat_forward(const GatForward<In, Out>& pass, CUstream_st* stream) {
  const GatInput<In>& over = pass.over;
  if (over.num_dst == 0) return;
  const unsigned blocks = blocks_for_rows(over.num_dst, kThreads, kMaxBlocks);
  const bool packed = over.in_pitch % 4 == 0 && pack_fits(4, over.cols, over.in, over.queries, pass.out);
  with_gat_shape(packed, over.cols, over.heads, [&]<int Width, int kVectors, int kHeads>() {
    forward_kernel<Width, kVectors, kHeads><<<blocks, kThreads, 0, stream>>>(pass, over.dropout.scale());
  });
  cuda::check_launch("gat_forward");
}

template void gat_forward(const GatForward<float, float>& pass, CUstream_st* stream);
template void gat_forward(const GatForward<float, Bf16>& pass, CUstream_st* stream);
template void gat_forward(const GatForward<Bf16, Bf16>& pass, CUstream_st* stream);

}  // namespace strata::nn
