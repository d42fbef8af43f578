// SPDX-License-Identifier: Apache-2.0
#include "layers/sage_layer.hpp"

#include <cmath>

#include "layers/init.hpp"

namespace strata::nn {

SageLayer::SageLayer(std::int64_t in_cols, std::int64_t out_cols, std::uint64_t seed, int layer,
                     int first_index) {
  const double bound = 1.0 / std::sqrt(static_cast<double>(in_cols));  // Kaiming uniform with a = sqrt(5)
  const auto values = [&](at::IntArrayRef sizes, int index) {
    return keyed_uniform(sizes, bound, {.seed = seed, .layer = layer, .index = first_index + index});
  };
  neighbors = register_module(
      "lin_l", std::make_shared<Linear>(values({out_cols, in_cols}, 0), values({out_cols}, 1)));
  root = register_module("lin_r", std::make_shared<Linear>(values({out_cols, in_cols}, 2), at::Tensor()));
}

}  // namespace strata::nn
