// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <cstdint>

#include "kernels/kernels.hpp"

/// The kernels of attention over edges (EdgeAttention, DotAttention). As in `kernels.hpp`, all memory lies on one device,
/// nothing is allocated, and any number of threads gives the same bits.
namespace strata::nn {

STRATA_HOST_DEVICE inline float leaky_relu(float x, float slope = kLeakySlope) {
  return x > 0.0f ? x : slope * x;
}
STRATA_HOST_DEVICE inline float leaky_slope(float x, float slope = kLeakySlope) {
  return x > 0.0f ? 1.0f : slope;
}

/// Whether dropout keeps the edge (u, v) of a head. `dst` are the keyed words of v (RandomUse::attention).
STRATA_HOST_DEVICE inline bool keeps_edge(const DropoutRule& rule, const Philox4& dst, NodeId u,
                                          std::uint32_t head, std::uint32_t relation = 0) {
  const auto id = static_cast<std::uint64_t>(rule.ids[u]);
  const std::uint64_t key = (static_cast<std::uint64_t>(dst.word[1]) << 32) | dst.word[0];
  const Philox4 words = philox({{static_cast<std::uint32_t>(id), static_cast<std::uint32_t>(id >> 32),
                                 dst.word[2] ^ (head / 8), dst.word[3] ^ relation}},
                               key);
  const std::uint32_t column = head % 8;
  return ((words.word[column / 2] >> (column % 2 * 16)) & 0xffffu) >= rule.threshold;
}
STRATA_HOST_DEVICE inline bool keeps_edge(const EdgeDropout& dropout, const Philox4& dst, Count u,
                                          std::uint32_t head) {
  const std::int32_t relation = dropout.relations == nullptr ? 0 : dropout.relations[u];
  return keeps_edge(dropout.rule, dst, u, head, static_cast<std::uint32_t>(relation));
}

STRATA_HOST_DEVICE inline Philox4 edge_key(const DropoutRule& rule, Count v) {
  return rule.words(RandomUse::attention, v);
}
STRATA_HOST_DEVICE inline Philox4 edge_key(const EdgeDropout& dropout, Count v) {
  const NodeId* ids = dropout.dst_ids == nullptr ? dropout.rule.ids : dropout.dst_ids;
  return dropout.rule.words_of(RandomUse::attention, ids[v]);
}

class AttentionKernels {
 public:
  virtual ~AttentionKernels() = default;
  virtual void head_dots(const HeadScores& dots, CUstream_st* stream) const = 0;
  virtual void forward(const EdgeAttentionForward& pass, CUstream_st* stream) const = 0;
  virtual void backward(const EdgeAttentionGrad& pass, CUstream_st* stream) const = 0;
  virtual void forward(const DotAttentionForward& pass, CUstream_st* stream) const = 0;
  virtual void backward(const DotAttentionGrad& pass, CUstream_st* stream) const = 0;
};

const AttentionKernels& cpu_attention_kernels();
const AttentionKernels& cuda_attention_kernels();  ///< of the current device; CUDA builds only

}  // namespace strata::nn
