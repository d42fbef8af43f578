// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/ops/full.h>
#include <c10/cuda/CUDAStream.h>

#include <limits>

/// What the tests of GPU kernels begin with.
namespace strata::test {

inline const c10::Device kGpu(c10::kCUDA, 0);

/// The stream that libtorch works on.
inline CUstream_st* stream() { return c10::cuda::getCurrentCUDAStream(0).stream(); }

/// Memory that no kernel may leave as it is: a result that was not written compares unequal to everything.
inline at::Tensor poisoned(at::IntArrayRef sizes, const at::TensorOptions& options = kGpu) {
  return at::full(sizes, std::numeric_limits<float>::quiet_NaN(), options);
}

}  // namespace strata::test
