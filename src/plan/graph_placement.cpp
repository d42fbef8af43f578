// SPDX-License-Identifier: Apache-2.0
#include "strata/plan/graph_placement.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "strata/plan/forecast.hpp"

namespace strata::plan {
namespace {

/// Every GPU has all rows, or none.
tensor::Placement whole(const TensorDemand& demand, bool on_gpus) {
  return on_gpus ? tensor::Placement::replicated(demand.rows()) : tensor::Placement::on_host(demand.rows());
}

/// A tensor that lies on the host only forgets its segments.
tensor::Placement by_segments(const TensorDemand& demand, const tensor::Placement& placement) {
  if (placement.segments.size() == demand.segments.size()) return placement;
  tensor::Placement host;
  for (const HeatCurve& curve : demand.segments)
    host.segments.push_back({{tensor::Stratum::host, curve.rows()}});
  return host;
}

/// Of a machine without GPUs.
std::vector<PlanRow> host_plan_rows(const RegionSizes& sizes, const tensor::TensorSpec& features) {
  std::vector<PlanRow> rows;
  const auto add = [&](GraphTensor tensor, Count count, std::int64_t width) {
    if (count > 0) rows.push_back({name_of(tensor), "host", count, count * width, {}});
  };
  add(GraphTensor::indptr, sizes.num_lists() + 1, sizeof(Count));
  add(GraphTensor::indices, sizes.local_edges, sizes.id_bytes());
  add(GraphTensor::weights, sizes.weights ? sizes.local_edges : 0, sizeof(float));
  add(GraphTensor::original_ids, sizes.num_nodes + sizes.aliases, sizes.id_bytes());
  add(GraphTensor::in_degrees, sizes.in_degrees ? sizes.num_nodes : 0, sizeof(std::int32_t));
  add(GraphTensor::edge_ids, sizes.edge_ids ? sizes.local_edges : 0, sizeof(EdgeId));
  const auto row_bytes = static_cast<std::int64_t>(features.row_bytes());
  if (row_bytes > 0) add(GraphTensor::features, features.rows, row_bytes);
  return rows;
}

std::vector<PlanRow> expected_plan_rows(const GraphPlacement& placement, const tensor::Placement& features) {
  const MachinePlan plan =
      estimate(placement.demands, realised_placements(placement, features), placement.limits);
  std::vector<PlanRow> rows;
  for (const TensorPlan& tensor : plan.tensors) {
    for (const StratumEstimate& s : tensor.strata) {
      rows.push_back({tensor.name, std::string(enum_name(s.stratum)), s.rows, s.rows * tensor.row_bytes,
                      PlanRow::Expected{s.share, s.bytes_per_second}});
    }
  }
  return rows;
}

}  // namespace

std::int64_t GraphPlacement::host_feature_bytes(const FeatureShape& shape) const {
  FeatureShape laid_out = shape;
  laid_out.padded = layout.padded;
  return features.total()[tensor::Stratum::host] * laid_out.row_pitch();
}

PlanLimits without_inputs(PlanLimits limits, const BatchAccesses& accesses,
                          std::int64_t bytes_per_input_row) {
  const auto input_bytes =
      static_cast<std::int64_t>(accesses.nodes * kBufferGrowth * static_cast<double>(bytes_per_input_row));
  limits.gpu_bytes = std::max<std::int64_t>(0, limits.gpu_bytes - input_bytes);
  return limits;
}

ChosenPlan choose_plan(GraphDemand demand, const PlacementRequest& request) {
  fix_placements(request, demand.limits, demand.tensors);
  MachinePlan plan = plan_tensors(demand.tensors, demand.limits);
  return {.demand = std::move(demand), .plan = std::move(plan)};
}

GraphPlacement place_on_host(const RegionSizes& sizes, const FeatureShape& features, const PlanLimits& limits,
                             const PlacementRequest& request) {
  std::vector<TensorDemand> demands =
      graph_demands({.sizes = sizes, .features = features, .accesses = {}, .rates = {}});
  fix_placements(request, limits, demands);
  GraphPlacement placement;
  for (const Count rows : features.part_rows)
    placement.features.segments.push_back({{tensor::Stratum::host, rows}});
  placement.limits = limits;
  return placement;
}

GraphPlacement realise(ChosenPlan chosen) {
  GraphPlacement placement;
  for (const TensorPlan& tensor : chosen.plan.tensors) {
    switch (tensor_of(tensor.name)) {
      case GraphTensor::indptr:
        placement.indptr = tensor.placement;
        break;
      case GraphTensor::indices:
        placement.indices = tensor.placement;
        break;
      case GraphTensor::features:
        placement.features = tensor.placement;
        break;
      case GraphTensor::original_ids:
        placement.original_ids = tensor.placement.segments[0][tensor::Stratum::replicated] > 0;
        break;
      case GraphTensor::in_degrees:
        placement.in_degrees = tensor.placement.segments[0][tensor::Stratum::replicated] > 0;
        break;
      case GraphTensor::weights:
      case GraphTensor::edge_ids:
        break;  // they go with the indices
    }
  }
  placement.demands = std::move(chosen.demand.tensors);
  placement.limits = chosen.demand.limits;
  return placement;
}

std::vector<tensor::Placement> realised_placements(const GraphPlacement& placement,
                                                   const tensor::Placement& features) {
  const auto realised = [&](const TensorDemand& demand) {
    switch (tensor_of(demand.name)) {
      case GraphTensor::indptr:
        return by_segments(demand, placement.indptr);
      case GraphTensor::indices:
        return by_segments(demand, placement.indices);
      case GraphTensor::features:
        return by_segments(demand, features);
      case GraphTensor::original_ids:
        return whole(demand, placement.original_ids);
      case GraphTensor::in_degrees:
        return whole(demand, placement.in_degrees);
      case GraphTensor::weights:
      case GraphTensor::edge_ids:
        break;  // they go with the indices
    }
    return whole(demand, false);
  };
  std::vector<tensor::Placement> placements;
  for (const TensorDemand& demand : placement.demands) placements.push_back(realised(demand));
  return placements;
}

std::vector<PlanRow> plan_rows(const RegionSizes& sizes, const tensor::TensorSpec& spec,
                               const GraphPlacement& placement, const tensor::Placement& features) {
  return placement.demands.empty() ? host_plan_rows(sizes, spec) : expected_plan_rows(placement, features);
}

std::vector<HottestRows> hottest_feature_rows(const GraphPlacement& placement) {
  constexpr std::array kShares{0.5, 0.8, 0.9, 0.95, 0.99};
  for (const TensorDemand& demand : placement.demands)
    if (demand.name == name_of(GraphTensor::features)) return hottest_rows(demand, kShares);
  return {};
}

}  // namespace strata::plan
