// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>

#include "layers/layers.hpp"

namespace strata::nn {

/// Parameters of a SAGEConv under PyG's names: lin_l(aggregate of the in-neighbors) + lin_r(x of the node
/// itself).
struct SageLayer : torch::nn::Module {
  /// Its parameters are those from `first_index` on of the layer.
  SageLayer(std::int64_t in_cols, std::int64_t out_cols, std::uint64_t seed, int layer, int first_index = 0);
  std::shared_ptr<Linear> neighbors, root;
};

}  // namespace strata::nn
