// SPDX-License-Identifier: Apache-2.0
#include "placement/choose_plan.hpp"

#include <algorithm>
#include <utility>

#include "strata/util/format.hpp"
#include "strata/util/log.hpp"

namespace strata::store {

placement::PlanLimits without_inputs(placement::PlanLimits limits, const BatchAccesses& accesses,
                                     const LoadOptions& options) {
  constexpr double kMargin = 1.25;  // some batches have more rows than expected
  const auto input_bytes =
      static_cast<std::int64_t>(accesses.nodes * kMargin * static_cast<double>(options.bytes_per_input_row));
  limits.gpu_bytes = std::max<std::int64_t>(0, limits.gpu_bytes - input_bytes);
  return limits;
}

ChosenPlan choose_plan(GraphDemand demand, const placement::PlacementRequest& request) {
  placement::fix_placements(request, demand.limits, demand.tensors);
  placement::MachinePlan plan = placement::plan_tensors(demand.tensors, demand.limits);
  return {.demand = std::move(demand), .plan = std::move(plan)};
}

void log_plan(const placement::MachinePlan& plan) {
  spdlog::info("placement: {} of each GPU; reads of a batch should take {} (GPU {}, peers {}, host {})",
               format_bytes(plan.gpu_bytes), format_seconds(plan.seconds.batch()),
               format_seconds(plan.seconds.local), format_seconds(plan.seconds.peer),
               format_seconds(plan.seconds.host));
}

}  // namespace strata::store
