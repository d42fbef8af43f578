#pragma once
#include "kernels.hpp"

namespace strata::nn {

/// Whether dropout keeps column `slot` of the eight that share words. Without an index into registers, so
/// that a slot may be known only when the kernel runs.
__device__ inline bool keeps(const Philox4& words, int slot, std::uint32_t threshold) {
  std::uint32_t word = words.word[0];
#pragma unroll
  for (int w = 1; w < 4; ++w) word = slot / 2 == w ? words.word[w] : word;
  return ((word >> (slot % 2 * 16)) & 0xffffu) >= threshold;
}

}  // namespace strata::nn
