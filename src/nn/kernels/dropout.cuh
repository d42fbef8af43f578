// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/kernels.hpp"

namespace strata::nn {

/// Whether dropout keeps column `column` of the eight that share words. It does not index registers, so
/// `column` need not be a constant.
__device__ inline bool keeps(const Philox4& words, int column, std::uint32_t threshold) {
  std::uint32_t word = words.word[0];
#pragma unroll
  for (int w = 1; w < 4; ++w) word = column / 2 == w ? words.word[w] : word;
  return ((word >> (column % 2 * 16)) & 0xffffu) >= threshold;
}

}  // namespace strata::nn
