// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "launch_cuda.cuh"

/// Kernels that fill a minibatch's arrays of node attributes.
namespace strata::sampling {

/// Attributes of nodes: `all_*` by global id, the others by local id.
template <typename Original>
struct NodeAttributes {
  const Original* all_original_ids;
  const std::int32_t* all_in_degrees;
  NodeId* original_ids;      // null: not asked for
  std::int32_t* in_degrees;  // null: not asked for
};

/// Writes the attributes of nodes *first (null: 0) to *last.
template <typename Original>
__global__ void describe_nodes(const NodeId* nodes, const Count* first, const Count* last,
                               NodeAttributes<Original> out) {
  const Count end = *last;
  for (Count i = (first == nullptr ? 0 : *first) + first_item<Count>(); i < end; i += item_stride<Count>()) {
    if (out.original_ids != nullptr) out.original_ids[i] = out.all_original_ids[nodes[i]];
    if (out.in_degrees != nullptr) out.in_degrees[i] = out.all_in_degrees[nodes[i]];
  }
}

/// The arrays of a minibatch's nodes; null: not asked for.
struct PaddedNodes {
  NodeId* nodes;
  NodeId* original_ids;
  std::int32_t* in_degrees;
  NodeId* sorted_nodes;
  std::int32_t* sorted_positions;
};

static __global__ void fill_nodes(const Count* num_nodes, Count end, PaddedNodes out) {
  for (Count i = *num_nodes + first_item<Count>(); i < end; i += item_stride<Count>()) {
    out.nodes[i] = -1;
    out.original_ids[i] = 0;
    if (out.in_degrees != nullptr) out.in_degrees[i] = 0;
    if (out.sorted_nodes == nullptr) continue;
    out.sorted_nodes[i] = -1;
    out.sorted_positions[i] = static_cast<std::int32_t>(i);
  }
}

}  // namespace strata::sampling
