// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "strata/graph/graph.hpp"
#include "strata/util/scratch.hpp"

namespace strata::partition {

/// The rows `nodes` of a table, converted to `dtype`. Throws InputError for a value that is not finite before
/// or after. With `scratch`, little of a mapped table is resident at a time.
std::vector<std::byte> gather_rows(const graph::FeatureTable& table, const NodeId* nodes, Count num_nodes,
                                   DType dtype, ScratchStore* scratch);

}  // namespace strata::partition
