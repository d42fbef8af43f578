// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include "strata/graph/graph.hpp"
#include "support/blocks.hpp"

/// Blocks of several relations made by hand.
namespace strata::test {

/// Three types of nodes and five relations, three of which end at papers, and one of which has no edges.
graph::GraphTypes citation_types();

/// A Block with types; an owner.
struct TypedBlock {
  OwnedBlock block;
  at::Tensor edge_ids;   ///< i64 [edges]
  at::Tensor relations;  ///< i64 [edges]
  at::Tensor types;      ///< i64 [num_dst] of dst nodes

  sampling::Block view() const;
};

/// Nodes of all types, some of which have no edges over some relations. Edges begin at nodes of the right
/// types.
TypedBlock random_typed_block(const graph::GraphTypes& types, Count num_dst, Count num_src,
                              std::uint64_t seed);

}  // namespace strata::test
