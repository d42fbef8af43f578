// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "heat.hpp"
#include "placement/placement_task.hpp"
#include "strata/placement/placement_request.hpp"
#include "strata/placement/planner.hpp"

namespace strata::store {

/// What the planner is asked: which of these tensors lie where within these limits?
struct GraphDemand {
  std::vector<placement::TensorDemand> tensors;
  placement::PlanLimits limits;
};

/// The answer, together with the question.
struct ChosenPlan {
  GraphDemand demand;  ///< with what a person has fixed
  placement::MachinePlan plan;
};

/// Of `limits`, what the input rows of batches leave of each GPU.
placement::PlanLimits without_inputs(placement::PlanLimits limits, const BatchAccesses& accesses,
                                     const LoadOptions& options);

/// Keeps to the request, and lets the planner choose the rest. Throws InputError for a request that cannot be
/// met.
ChosenPlan choose_plan(GraphDemand demand, const placement::PlacementRequest& request);

/// Writes one line.
void log_plan(const placement::MachinePlan& plan);

}  // namespace strata::store
