// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "graph_regions.hpp"
#include "placement/graph_placement.hpp"
#include "strata/store/machine_graph.hpp"

namespace strata::store {

/// What lies where, for the banner, once all is placed.
std::vector<MachineGraph::PlanRow> plan_rows(const GraphRegions& regions, const GraphPlacement& placement,
                                             const tensor::ChunkTensor& features);

/// The rows of a placement that was planned, with what is expected of them; `features` is what became of
/// placement.features.
std::vector<MachineGraph::PlanRow> expected_plan_rows(const GraphPlacement& placement,
                                                      const tensor::Placement& features);

/// MachineGraph::hottest_rows().
std::vector<placement::HottestRows> hottest_feature_rows(const GraphPlacement& placement);

}  // namespace strata::store
