// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace strata::nn {

/// The parameter of a model that initial values are for.
struct ParameterKey {
  std::uint64_t seed = 0;
  int layer = 0;
  int index = 0;  ///< index of the parameter within its layer
};

/// Uniform in [-bound, bound), f32 on the CPU: element i depends only on the key and i, so every rank and
/// device starts with the same bits.
at::Tensor keyed_uniform(at::IntArrayRef sizes, double bound, const ParameterKey& key);
/// Glorot's initial values: uniform, by the sum of the columns of input and output.
at::Tensor glorot(at::IntArrayRef sizes, std::int64_t both, const ParameterKey& key);

}  // namespace strata::nn
