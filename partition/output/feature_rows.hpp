// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "strata/graph/graph.hpp"
#include "strata/util/row_code.hpp"
#include "strata/util/scratch.hpp"
#include "strata/util/threads.hpp"

namespace strata::partition {

/// The type of stored rows: `dtype`, or `code` if there is one.
struct StoredType {
  DType dtype = DType::f32;
  const RowCode& code;
};

/// The rows `nodes` of a table, converted. Throws InputError for a value that is not finite before or after.
/// With `scratch`, little of a mapped table is resident at a time.
std::vector<std::byte> gather_rows(const graph::FeatureTable& table, const NodeId* nodes, Count num_nodes,
                                   const StoredType& type, ScratchStore* scratch);

/// Trains codebooks for vq on a sample of the table's rows that depends only on the seed. Throws InputError
/// for a value that is not finite. `scratch` as for gather_rows().
RowCode train_code(const graph::FeatureTable& table, std::uint64_t seed, ThreadPool& pool,
                   ScratchStore* scratch);

}  // namespace strata::partition
