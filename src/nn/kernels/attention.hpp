// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <cstdint>

#include "kernels/kernels.hpp"

/// Attention over the in-neighbors of a node and the node itself, over raw pointers (Velickovic et al.,
/// "Graph attention networks", ICLR 2018). As in `kernels.hpp`, all memory lies on one device, nothing is
/// allocated, and any number of threads gives the same bits.
///
///     s(u, v)  = leaky_relu(src_scores[u] + dst_scores[v])                  for one head
///     p(u, v)  = n(u, v) exp(s(u, v)) / sum of n(w, v) exp(s(w, v)) over w in {in-neighbors of v} and v
///     out[v]   = sum of keep(u, v) p(u, v) rows[u]
///
/// n is how much the edge counts: 1, unless a forward pass has `edge_weights`; always 1 for the node itself.
/// Edges from a node to itself are left out, because the node is included once anyway; without `self_loops`
/// it is not, and they count as any others. keep is 1, or with dropout either 0 or its scale.
namespace strata::nn {

constexpr float kLeakySlope = 0.2f;

/// What forward and backward share. A row has the heads one after the other: [heads, head_cols].
struct Attention {
  Count num_dst = 0, num_src = 0;
  Count heads = 1, head_cols = 0;
  const Count* indptr = nullptr;              ///< [num_dst + 1]
  const std::int32_t* indices = nullptr;      ///< src nodes; the first num_dst of them are the dst nodes
  const float* edge_weights = nullptr;        ///< parallel to `indices`; null: ones. Forward only
  const Count* out_indptr = nullptr;          ///< [num_src + 1] of the transpose; backward only
  const std::int32_t* out_indices = nullptr;  ///< dst nodes
  const float* rows = nullptr;                ///< [num_src, heads * head_cols]
  const float* src_scores = nullptr;          ///< [num_src, heads]
  const float* dst_scores = nullptr;          ///< [num_dst, heads]
  DropoutRule dropout;                        ///< of p; hop and ids are those of the src nodes
  float slope = kLeakySlope;                  ///< of the leaky ReLU below 0
  /// Whether a dst node is its own in-neighbor: those that are src nodes, too.
  bool self_loops = true;

  STRATA_HOST_DEVICE Count cols() const { return heads * head_cols; }
  STRATA_HOST_DEVICE float raw_score(Count u, Count v, Count head) const {
    return src_scores[u * heads + head] + dst_scores[v * heads + head];
  }
  STRATA_HOST_DEVICE bool has_loop(Count v) const { return self_loops && v < num_src && v < num_dst; }
  /// Whether the edge (u, v) is left out, because has_loop() stands for it.
  STRATA_HOST_DEVICE bool leaves_out(Count u, Count v) const { return self_loops && u == v; }
};

STRATA_HOST_DEVICE inline float leaky_relu(float x, float slope = kLeakySlope) {
  return x > 0.0f ? x : slope * x;
}
STRATA_HOST_DEVICE inline float leaky_slope(float x, float slope = kLeakySlope) {
  return x > 0.0f ? 1.0f : slope;
}

/// Whether dropout keeps the edge (u, v) of a head. `dst` are the keyed words of v (RandomUse::attention).
STRATA_HOST_DEVICE inline bool keeps_edge(const DropoutRule& rule, const Philox4& dst, NodeId u,
                                          std::uint32_t head) {
  const auto id = static_cast<std::uint64_t>(rule.ids[u]);
  const std::uint64_t key = (static_cast<std::uint64_t>(dst.word[1]) << 32) | dst.word[0];
  const Philox4 words = philox({{static_cast<std::uint32_t>(id), static_cast<std::uint32_t>(id >> 32),
                                 dst.word[2] ^ (head / 8), dst.word[3]}},
                               key);
  const std::uint32_t column = head % 8;
  return ((words.word[column / 2] >> (column % 2 * 16)) & 0xffffu) >= rule.threshold;
}

STRATA_HOST_DEVICE inline Philox4 edge_key(const DropoutRule& rule, Count v) {
  return rule.words(RandomUse::attention, v);
}

/// scores[r, head] = <rows[r, head], weights[head]>.
struct HeadDots {
  Count num_rows = 0, heads = 1, head_cols = 0;
  const float* rows = nullptr;     ///< [num_rows, heads * head_cols]
  const float* weights = nullptr;  ///< [heads, head_cols]
  float* scores = nullptr;         ///< [num_rows, heads]
};

struct AttentionForward {
  Attention over;
  float* log_sums = nullptr;  ///< [num_dst, heads] log of the softmax's denominator, kept for the gradient
  float* out = nullptr;       ///< [num_dst, heads * head_cols]
};

struct AttentionBackward {
  Attention over;
  const float* log_sums = nullptr;
  const float* src_weights = nullptr;  ///< [heads, head_cols]; src_scores are HeadDots with them
  const float* dst_weights = nullptr;  ///< null: the dst scores come of other rows
  const float* grad_out = nullptr;     ///< [num_dst, heads * head_cols]
  float* means = nullptr;              ///< [num_dst, heads] scratch: sum of p times its gradient
  float* grad_dst_scores = nullptr;    ///< [num_dst, heads]
  float* grad_src_scores = nullptr;    ///< [num_src, heads]
  float* grad_rows = nullptr;  ///< [num_src, heads * head_cols], including the gradient through the scores
};

class AttentionKernels {
 public:
  virtual ~AttentionKernels() = default;
  virtual void head_dots(const HeadDots& dots, CUstream_st* stream) const = 0;
  virtual void forward(const AttentionForward& pass, CUstream_st* stream) const = 0;
  virtual void backward(const AttentionBackward& pass, CUstream_st* stream) const = 0;
};

const AttentionKernels& cpu_attention_kernels();
const AttentionKernels& cuda_attention_kernels();  ///< of the current device; CUDA builds only

}  // namespace strata::nn
