// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "cuda/device_array.cuh"

namespace strata::partition {

inline constexpr int kMostConstraints = 8;

/// Labels of all nodes on the GPU, and the weight of the nodes per label. A view.
struct LabelState {
  std::int32_t* label;         ///< as settled
  std::int32_t* next;          ///< as the node's chunk decided
  Count* load;                 ///< [label][constraint]
  const Count* weights;        ///< [node][constraint], or null: 1 each
  const std::int32_t* within;  ///< or null
  int constraints;
  Count limits[kMostConstraints];

  __device__ Count weight(Count v, int c) const {
    return weights == nullptr ? 1 : weights[v * constraints + c];
  }
  /// Whether a cluster with this load has room for a node.
  __device__ bool has_room(Count v, const Count* load_of_cluster) const {
    for (int c = 0; c < constraints; ++c) {
      const Count w = weight(v, c);
      if (w > 0 && load_of_cluster[c] + w > limits[c]) return false;
    }
    return true;
  }
  __device__ const Count* load_of(std::int32_t cluster) const {
    return load + static_cast<Count>(cluster) * constraints;
  }
};

}  // namespace strata::partition
