// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "strata/partition/build.hpp"

namespace strata::partition {

/// METIS k-way with gpmetis's defaults; if METIS exceeds the requested imbalance of a constraint, rebalance()
/// reduces it. No part is empty.
std::vector<std::int32_t> metis_assign(const CompactGraph& graph, const std::vector<NodeId>& train,
                                       const AssignOptions& options, ThreadPool& pool);

}  // namespace strata::partition
