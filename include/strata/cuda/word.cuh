// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_runtime.h>

namespace strata::cuda {

/// The type of one load or store of kBytes bytes. Only for .cu files.
template <int kBytes>
struct Word;
template <>
struct Word<1> {
  using Type = unsigned char;
};
template <>
struct Word<2> {
  using Type = unsigned short;
};
template <>
struct Word<4> {
  using Type = unsigned int;
};
template <>
struct Word<8> {
  using Type = uint2;
};
template <>
struct Word<16> {
  using Type = uint4;
};

}  // namespace strata::cuda
