// SPDX-License-Identifier: Apache-2.0
#include "placement/realised_placement.hpp"

#include <utility>

#include "graph_tensor.hpp"

namespace strata::store {
namespace {

/// Every GPU has all rows, or none.
tensor::Placement whole(const placement::TensorDemand& demand, bool on_gpus) {
  return on_gpus ? tensor::Placement::replicated(demand.rows()) : tensor::Placement::on_host(demand.rows());
}

/// A tensor that lies on the host only forgets its segments.
tensor::Placement by_segments(const placement::TensorDemand& demand, const tensor::Placement& placement) {
  if (placement.segments.size() == demand.segments.size()) return placement;
  tensor::Placement host;
  for (const placement::HeatCurve& curve : demand.segments) host.segments.push_back({.host = curve.rows()});
  return host;
}

}  // namespace

GraphPlacement realise(ChosenPlan chosen) {
  GraphPlacement placement;
  for (const placement::TensorPlan& tensor : chosen.plan.tensors) {
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
        placement.original_ids = tensor.placement.segments[0].replicated > 0;
        break;
      case GraphTensor::in_degrees:
        placement.in_degrees = tensor.placement.segments[0].replicated > 0;
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
  const auto realised = [&](const placement::TensorDemand& demand) {
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
  for (const placement::TensorDemand& demand : placement.demands) placements.push_back(realised(demand));
  return placements;
}

}  // namespace strata::store
