// SPDX-License-Identifier: Apache-2.0
#include "layers/init.hpp"

#include <ATen/ops/empty.h>

#include <cmath>

#include "strata/util/random.hpp"

namespace strata::nn {

at::Tensor keyed_uniform(at::IntArrayRef sizes, double bound, const ParameterKey& key) {
  at::Tensor values = at::empty(sizes, at::TensorOptions().dtype(at::kFloat));
  float* data = values.mutable_data_ptr<float>();
  const BatchKey batch{.seed = key.seed, .epoch = 0, .step = static_cast<std::uint32_t>(key.index)};
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    const std::uint64_t bits = node_key(batch, RandomUse::init, static_cast<std::uint32_t>(key.layer), i);
    data[i] = static_cast<float>((2.0 * unit_double(bits) - 1.0) * bound);
  }
  return values;
}

at::Tensor glorot(at::IntArrayRef sizes, std::int64_t both, const ParameterKey& key) {
  return keyed_uniform(sizes, std::sqrt(6.0 / static_cast<double>(both)), key);
}

}  // namespace strata::nn
