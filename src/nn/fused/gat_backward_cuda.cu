// SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include "fused/gat_rows.cuh"
#include "kernels/piece_sums.cuh"
#include "strata/cuda/check.cuh"

namespace strata::nn {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / kWarp;

/// Blocks per SM with which the kernel is fastest; long rows need registers.
template <int Width, int kVectors>
constexpr int kBlocksOfSm = Width* kVectors >= 8 ? 3 : 4;

/// Where an edge's contribution to the gradient of a row is written: directly to the row if it is the only
/// contribution.
template <typename In, typename T>
__device__ inline T* contribution_at(const GatBackward<In, T>& pass, Count place, Count u, bool only) {
  return only ? pass.grad_in + u * pass.over.cols : pass.edge_grads + place * pass.over.cols;
}

template <typename In, typename T>
__device__ inline bool only_contribution(const GatBackward<In, T>& pass, Count u) {
  return pass.transposed_indptr[u + 1] - pass.transposed_indptr[u] + (u < pass.over.num_dst ? 1 : 0) == 1;
}

template <typename Part, typename T>
__device__ inline void contribute(Part value, const Part& output, float scale, bool further_heads, T* at,
                                  Count cols) {
  value.gate(output, scale);
  if (further_heads) value.add(Part::load(at, 0, cols), 1.0f);
  value.store(at, 0, cols);
}

// One warp per dst node, as in the forward pass. Rows are read again for the gradients of p. Contributions to
// the queries' gradients stay in registers and then become the block's piece.
template <int Width, int kVectors, int kHeads, bool kInputGrad, typename In, typename T>
__global__ void __launch_bounds__(kThreads, kBlocksOfSm<Width, kVectors>)
    backward_kernel(GatBackward<In, T> pass, float scale) {
  constexpr int kRows = kChunkRows<Width, kVectors>;
  using Part = GatColumns<Width, kVectors>;
  using Scores = ScoreLanes<kRows, kHeads>;
  __shared__ float shared[kWarps * Part::kSpan];
  const GatInput<In>& over = pass.over;
  const Count out_pitch = over.heads * over.cols + kGatTail<T>;
  for (Count first = 0; first < over.heads; first += kHeads) {
    const Count head = first + Scores::head();
    const auto part_of = [&](const auto* rows, int h) {
      return first + h < over.heads ? Part::load(rows + (first + h) * over.cols, 0, over.cols)
                                    : Part::zeros();
    };
    Part grad_src[kHeads], grad_dst[kHeads];
#pragma unroll
    for (int h = 0; h < kHeads; ++h) grad_src[h] = grad_dst[h] = Part::zeros();
    for (Count v = first_warp(); v < over.num_dst; v += num_warps()) {
      const GatList list(over, v);
      const Philox4 key = over.dropout.active() ? edge_key(over.dropout, v) : Philox4{};
      Part grad[kHeads];
#pragma unroll
      for (int h = 0; h < kHeads; ++h) grad[h] = part_of(pass.grad_out + v * over.heads * over.cols, h);
      const float log_sum = head < over.heads ? pass.log_sums[v * over.heads + head] : 0.0f;
      float mean = 0.0f, score_grads = 0.0f;
      if (list.size() > kRows) {  // the sum of p times its gradient, over all chunks
        float shares[kHeads];
#pragma unroll
        for (int h = 0; h < kHeads; ++h) shares[h] = grad[h].dot_share(part_of(pass.out + v * out_pitch, h));
        mean = HeadLanes<kHeads>::get(HeadLanes<kHeads>::sum_over_lanes(shares), 0, Scores::head());
      }
      Part own_row = Part::zeros(), own_grad = Part::zeros();
      for (Count begin = 0; begin < list.size(); begin += kRows) {
        GatChunk<Width, kVectors, kRows> chunk;
        chunk.load(over, list, begin);
        if (begin == 0) own_row = chunk.rows[0];
        float shares[Scores::kValues];
#pragma unroll
        for (int i = 0; i < Scores::kValues; ++i)
          shares[i] = chunk.rows[i / kHeads].dot_share(grad[i % kHeads]);
        const bool here = Scores::row() < chunk.num && head < over.heads;
        const float raw =
            here ? pass.raw_scores[list.place(begin + Scores::row()) * over.heads + head] : -INFINITY;
        const Count u = __shfl_sync(~0u, chunk.index, Scores::row());
        const float p = expf(leaky_relu(raw) - log_sum);
        const float kept = p == 0.0f ? 0.0f : gat_kept(over, key, u, head, scale);
        const float grad_p = Scores::sum_over_lanes(shares) * kept;
        if (list.size() <= kRows) mean = Scores::sum_over_rows(p * grad_p);
        const float score_grad = p * (grad_p - mean) * leaky_slope(raw), weight = p * kept;
        score_grads += score_grad;

        unsigned only = 0;
        if constexpr (kInputGrad)
          only = __ballot_sync(~0u, lane() < chunk.num && only_contribution(pass, chunk.index));
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          if (i >= chunk.num) continue;
          Part contribution = Part::zeros();
#pragma unroll
          for (int h = 0; h < kHeads; ++h) {
            const float of_score = Scores::get(score_grad, i, h);
            grad_src[h].add(chunk.rows[i], of_score);
            if constexpr (kInputGrad) {
              contribution.add(grad[h], Scores::get(weight, i, h));
              contribution.add(part_of(over.queries, h), of_score);
            }
          }
          if constexpr (kInputGrad) {
            const Count to = __shfl_sync(~0u, chunk.index, i);
            if (begin + i == 0)
              own_grad = contribution;
            else
              contribute(contribution, chunk.rows[i], pass.scale, first > 0,
                         contribution_at(pass, list.place(begin + i), to, (only >> i) & 1u), over.cols);
          }
        }
      }
      score_grads = Scores::sum_over_rows(score_grads);
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        const float of_score = Scores::get(score_grads, 0, h);
        grad_dst[h].add(own_row, of_score);
        if constexpr (kInputGrad) own_grad.add(part_of(over.queries + over.heads * over.cols, h), of_score);
      }
      if constexpr (kInputGrad)
        contribute(own_grad, own_row, pass.scale, first > 0,
                   contribution_at(pass, list.place(0), v, only_contribution(pass, v)), over.cols);
    }
    float* piece = pass.grad_queries + static_cast<Count>(blockIdx.x) * 2 * over.heads * over.cols;
    float* mine = shared + threadIdx.x / kWarp * Part::kSpan;
#pragma unroll
    for (int part = 0; part < 2 * kHeads; ++part) {
      const int h = part % kHeads;
      if (first + h >= over.heads) continue;
      __syncthreads();
      (part < kHeads ? grad_src[h] : grad_dst[h]).store(mine, 0, over.cols);
      __syncthreads();
      float* to = piece + ((part < kHeads ? 0 : over.heads) + first + h) * over.cols;
      for (Count c = threadIdx.x; c < over.cols; c += kThreads) {
        float sum = 0.0f;
#pragma unroll
        for (int w = 0; w < kWarps; ++w) sum += shared[w * Part::kSpan + c];
        to[c] = sum;
      }
    }
  }
}

// One warp per src node. Few of them have more than one contribution.
template <int Width, int kVectors, typename T>
__global__ void __launch_bounds__(kThreads) input_grad_kernel(GatInputGrad<T> task) {
  using Part = GatColumns<Width, kVectors>;
  for (Count u = first_warp(); u < task.num_src; u += num_warps()) {
    const Count begin = task.transposed_indptr[u], size = task.transposed_indptr[u + 1] - begin;
    const bool is_dst = u < task.num_dst;
    if (size + (is_dst ? 1 : 0) == 1) continue;
    for (Count base = 0; base < task.cols; base += Part::kSpan) {
      Part sum = Part::zeros();
      if (is_dst)
        sum = Part::load(task.edge_grads + (EdgeRange(task.edges, u).begin + u) * task.cols, base, task.cols);
      for (Count e = 0; e < size; ++e) {
        const Count v = task.transposed_indices[begin + e];
        const EdgeRange list(task.edges, v);
        // Parallel edges have equal contributions, so the first one is used for each.
        Count found = -1;
        for (Count at = 0; found < 0 && at < list.size; at += kWarp) {
          const bool same = at + lane() < list.size && task.edges.indices[list.begin + at + lane()] == u;
          const unsigned lanes = __ballot_sync(~0u, same);
          if (lanes != 0) found = at + __ffs(static_cast<int>(lanes)) - 1;
        }
        if (found < 0) continue;
        sum.add(Part::load(task.edge_grads + (list.begin + v + 1 + found) * task.cols, base, task.cols),
                1.0f);
      }
      sum.store(task.grad_in + u * task.cols, base, task.cols);
    }
  }
}

constexpr int kPieceColumns = kThreads / 8;  // of a block

__global__ void __launch_bounds__(kThreads)
    sum_pieces_kernel(const float* pieces, Count num_pieces, Count size, float* sums) {
  const Count column = static_cast<Count>(blockIdx.x) * kPieceColumns + threadIdx.x % kPieceColumns;
  const float sum = sum_of_pieces<kThreads, kPieceColumns, 4>({pieces, num_pieces, size}, column);
  if (threadIdx.x < kPieceColumns && column < size) sums[column] = sum;
}

// One warp per row of W.
__global__ void __launch_bounds__(kThreads) parameter_grads_kernel(GatParameterGrads task) {
  const GatParameters& of = task.of;
  const Count row = first_warp();
  if (row >= of.heads * of.head_cols) return;
  const Count head = row / of.head_cols, product_row = task.heads_averaged ? row % of.head_cols : row;
  const float scale = task.heads_averaged ? 1.0f / static_cast<float>(of.heads) : 1.0f;
  const float *src = task.scratch + head * of.cols, *dst = src + of.heads * of.cols;
  const float of_src = of.attention_src[row], of_dst = of.attention_dst[row];
  const float* product = task.product + product_row * task.product_pitch;
  float src_share = 0.0f, dst_share = 0.0f;
  for (Count c = lane(); c < of.cols; c += kWarp) {
    const float weight = of.weight[row * of.cols + c];
    src_share += weight * src[c];
    dst_share += weight * dst[c];
    task.weight[row * of.cols + c] = product[head * of.cols + c] * scale + of_src * src[c] + of_dst * dst[c];
  }
  src_share = sum_of_group<32>(src_share);
  dst_share = sum_of_group<32>(dst_share);
  if (lane() != 0) return;
  task.attention_src[row] = src_share;
  task.attention_dst[row] = dst_share;
  if (product_row == row) task.bias[row] = product[of.heads * of.cols];
}

template <bool kInputGrad, typename In, typename T>
void launch_backward(const GatBackward<In, T>& pass, CUstream_st* stream) {
  const GatInput<In>& over = pass.over;
  const bool packed = over.in_pitch % 4 == 0 && pack_fits(4, over.cols, over.in, over.queries, pass.out,
                                                          pass.grad_out, pass.grad_in, pass.edge_grads);
  with_gat_shape(packed, over.cols, over.heads, [&]<int Width, int kVectors, int kHeads>() {
    backward_kernel<Width, kVectors, kHeads, kInputGrad>
        <<<static_cast<unsigned>(pass.num_pieces), kThreads, 0, stream>>>(pass, over.dropout.scale());
  });
  cuda::check_launch("gat_backward");
}

}  // namespace

Count gat_pieces(Count num_dst, Count cols) {
  // The number of pieces fits an H200 but is the same on every GPU, so that sums do not depend on the GPU.
  constexpr Count kMultiprocessors = 132;
  const Count most = kMultiprocessors * (cols > kWarp * 4 ? kBlocksOfSm<4, 2> : kBlocksOfSm<4, 1>);
  return blocks_for_rows(num_dst, kThreads, most);
}

template <typename In, typename T>
void gat_backward(const GatBackward<In, T>& pass, CUstream_st* stream) {
  // Only the first layer needs no gradient, and it reads f32.
  if constexpr (std::is_same_v<In, Bf16>) {
    launch_backward<true>(pass, stream);
  } else if constexpr (std::is_same_v<T, Bf16>) {
    launch_backward<false>(pass, stream);
  } else {
    pass.grad_in != nullptr ? launch_backward<true>(pass, stream) : launch_backward<false>(pass, stream);
  }
}

template <typename T>
void gat_input_grad(const GatInputGrad<T>& task, CUstream_st* stream) {
  if (task.num_src == 0) return;
  const unsigned blocks = blocks_for_rows(task.num_src, kThreads, 1 << 20);
  const bool packed = pack_fits(4, task.cols, task.edge_grads, task.grad_in);
  if (packed && task.cols > kWarp * 4)
    input_grad_kernel<4, 2><<<blocks, kThreads, 0, stream>>>(task);
  else if (packed)
    input_grad_kernel<4, 1><<<blocks, kThreads, 0, stream>>>(task);
  else
    input_grad_kernel<1, 4><<<blocks, kThreads, 0, stream>>>(task);
  cuda::check_launch("gat_input_grad");
}

void gat_parameter_grads(const GatParameterGrads& task, CUstream_st* stream) {
  const Count size = 2 * task.of.heads * task.of.cols;
  sum_pieces_kernel<<<static_cast<unsigned>((size + kPieceColumns - 1) / kPieceColumns), kThreads, 0,
                      stream>>>(task.grad_queries, task.num_pieces, size, task.scratch);
  cuda::check_launch("gat_sum_pieces");
  const Count rows = task.of.heads * task.of.head_cols;
  parameter_grads_kernel<<<blocks_for_rows(rows, kThreads, rows), kThreads, 0, stream>>>(task);
  cuda::check_launch("gat_parameter_grads");
}

template void gat_backward(const GatBackward<float, float>& pass, CUstream_st* stream);
template void gat_backward(const GatBackward<float, Bf16>& pass, CUstream_st* stream);
template void gat_backward(const GatBackward<Bf16, Bf16>& pass, CUstream_st* stream);
template void gat_input_grad(const GatInputGrad<float>& task, CUstream_st* stream);
template void gat_input_grad(const GatInputGrad<Bf16>& task, CUstream_st* stream);

}  // namespace strata::nn
