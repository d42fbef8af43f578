// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace strata::nn {

/// Which parameter of a model an initial value belongs to.
struct ParameterKey {
  std::uint64_t seed = 0;
  int layer = 0;
  int index = 0;  ///< of the parameter within its layer
};

/// Uniform in [-bound, bound), f32 on the CPU: element i depends on the key and i alone, so every rank and
/// device starts with the same bits.
at::Tensor keyed_uniform(at::IntArrayRef sizes, double bound, const ParameterKey& key);

}  // namespace strata::nn
