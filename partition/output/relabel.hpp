// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "strata/partition/build.hpp"

namespace strata::partition {

/// The new, global ids: part k owns [offsets[k], offsets[k+1]), with its hottest node first and ties by
/// original id.
struct Relabeling {
  std::vector<NodeId> offsets;       ///< [parts + 1]
  std::vector<NodeId> original_ids;  ///< by global id
  std::vector<NodeId> global_ids;    ///< by original id
};

Relabeling relabel(const std::vector<std::int32_t>& part_of, int num_parts, const std::vector<Count>& heat,
                   ThreadPool& pool);

}  // namespace strata::partition
