// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "strata/partition/assign.hpp"

namespace strata::partition {

/// METIS k-way with gpmetis's defaults; several constraints are brought within the asked imbalance by
/// rebalance() where METIS exceeds it.
std::vector<std::int32_t> metis_assign(const CompactGraph& graph, const std::vector<NodeId>& train,
                                       const AssignOptions& options, ThreadPool& pool);

}  // namespace strata::partition
