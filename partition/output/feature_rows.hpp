// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "strata/graph/graph.hpp"

namespace strata::partition {

/// The rows `nodes` of a table, converted to `dtype`. Throws InputError for a value that is not finite before
/// or after.
std::vector<std::byte> gather_rows(const graph::FeatureTable& table, const NodeId* nodes, Count num_nodes,
                                   DType dtype);

}  // namespace strata::partition
