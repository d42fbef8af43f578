// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "placement/choose_plan.hpp"
#include "placement/graph_placement.hpp"

namespace strata::store {

/// The placement that a plan stands for, without the ranking of lists and the layout of features, of which
/// the plan knows nothing.
GraphPlacement realise(ChosenPlan chosen);

/// Where the tensors of the demands lie in the end, one per demand: without peer access, stripes have gone to
/// the host. `features` is what became of placement.features.
std::vector<tensor::Placement> realised_placements(const GraphPlacement& placement,
                                                   const tensor::Placement& features);

}  // namespace strata::store
