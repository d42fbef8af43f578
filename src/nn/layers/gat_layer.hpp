// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>

#include "layers/layers.hpp"

namespace strata::nn {

/// Parameters of a GATConv under PyG's names: attention over lin(x), which both ends of an edge share.
struct GatLayer : torch::nn::Module {
  struct Shape {
    std::int64_t in_cols, heads, head_cols, out_cols;
    bool residual = false;
  };
  /// Its parameters are those from `first_index` on of the layer.
  GatLayer(const Shape& shape, std::uint64_t seed, int layer, int first_index = 0);
  at::Tensor src_weights, dst_weights, bias;
  std::shared_ptr<Linear> lin, res;  ///< res: null without residual connections
};

}  // namespace strata::nn
