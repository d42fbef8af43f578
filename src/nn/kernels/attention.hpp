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
