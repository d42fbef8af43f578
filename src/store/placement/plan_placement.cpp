// SPDX-License-Identifier: Apache-2.0
#include "placement/plan_placement.hpp"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "placement/choose_plan.hpp"
#include "placement/feature_layout.hpp"
#include "placement/graph_demands.hpp"
#include "placement/graph_heat.hpp"
#include "placement/measured_rates.hpp"
#include "placement/realised_placement.hpp"
#include "strata/tensor/gpu_map.hpp"

namespace strata::store {
namespace {

/// Refuses a request for GPUs, and leaves all on the host.
GraphPlacement place_on_host(const RegionSizes& sizes, const PlacementTask& task,
                             const placement::PlanLimits& limits) {
  std::vector<placement::TensorDemand> demands =
      graph_demands({.sizes = sizes, .features = task.features, .accesses = {}, .rates = {}});
  placement::fix_placements(task.options.placement, limits, demands);
  GraphPlacement placement;
  for (const Count rows : task.features.part_rows) placement.features.segments.push_back({.host = rows});
  placement.limits = limits;
  return placement;
}

/// Presampling takes time, and changes nothing where every GPU has room for all.
bool should_presample(const Presampling& presampling, const GraphDemand& demand) {
  return presampling.run && (presampling.always || !all_fit(demand.tensors, demand.limits));
}

/// May the layout of feature rows change how fast a batch is read?
bool layout_matters(const ChosenPlan& chosen, const FeatureShape& features) {
  return placement::layout_matters(features.row_bytes()) && realise(chosen).host_feature_bytes(features) > 0;
}

void log_choice(const comm::Machine& machine, std::span<const MeasuredRates> rates,
                const placement::MachinePlan& plan) {
  if (machine.rank() > 0 || machine.index() > 0) return;
  log_rates(rates);
  log_plan(plan);
}

}  // namespace

std::int64_t least_host_bytes(const RegionSizes& sizes, const FeatureShape& features,
                              std::int64_t gpu_bytes) {
  return sizes.bytes() + std::max<std::int64_t>(0, features.rows() * features.row_bytes() - gpu_bytes);
}

GraphPlacement plan_placement(const comm::Machine& machine, const GraphRegions& regions,
                              const PlacementTask& task) {
  const placement::PlanLimits limits{.gpu_bytes = task.gpu_bytes,
                                     .host_bytes = task.host_bytes,
                                     .num_gpus = tensor::gpus_of(machine).size()};
  if (limits.num_gpus == 0) return place_on_host(regions.sizes, task, limits);

  const std::vector<MeasuredRates> rates =
      measure_rates(machine, row_lengths(regions.sizes, task.features), task.options.host_threads);
  const std::vector<ListPart> list_parts = list_parts_of(regions.indptr.data(), task.list_parts);
  const auto demand_of = [&](const GraphHeat& heat, const FeatureShape& features) -> GraphDemand {
    return {.tensors = graph_demands({.sizes = regions.sizes,
                                      .features = features,
                                      .accesses = heat.accesses,
                                      .rates = rates,
                                      .host_path = task.options.host_path,
                                      .list_parts = list_parts}),
            .limits = without_inputs(limits, heat.accesses, task.options)};
  };
  GraphHeat heat = heat_of_structure(machine, regions, task);
  if (task.counts != nullptr)
    heat = counted_heat(machine, task, std::move(heat));
  else if (should_presample(task.options.presampling, demand_of(heat, task.features)))
    heat = presample(machine, regions, task, std::move(heat));

  ChosenPlan chosen = choose_plan(demand_of(heat, task.features), task.options.placement);
  placement::RowLayout layout;
  if (layout_matters(chosen, task.features)) {
    layout = choose_feature_layout(machine, task.features, task.host_bytes);
    if (layout.padded)
      chosen = choose_plan(demand_of(heat, task.features.with_padding()), task.options.placement);
  }
  log_choice(machine, rates, chosen.plan);

  GraphPlacement placement = realise(std::move(chosen));
  placement.lists = std::move(heat.lists);
  placement.layout = layout;
  placement.presampled_batches = heat.presampled_batches;
  return placement;
}

}  // namespace strata::store
