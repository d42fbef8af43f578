// SPDX-License-Identifier: Apache-2.0
#include "placement/plan_rows.hpp"

#include <array>

#include "graph_tensor.hpp"
#include "placement/realised_placement.hpp"

namespace strata::store {
namespace {

using PlanRow = MachineGraph::PlanRow;

const char* name_of(tensor::Stratum stratum) {
  switch (stratum) {
    case tensor::Stratum::replicated:
      return "replicated";
    case tensor::Stratum::striped:
      return "striped";
    case tensor::Stratum::host:
      return "host";
  }
  return "";
}

/// Of a machine without GPUs.
std::vector<PlanRow> host_plan_rows(const GraphRegions& regions, const tensor::TensorSpec& features) {
  std::vector<PlanRow> rows;
  const auto add = [&](GraphTensor tensor, Count count, std::size_t bytes) {
    if (count > 0) rows.push_back({name_of(tensor), "host", count, static_cast<std::int64_t>(bytes), {}});
  };
  add(GraphTensor::indptr, regions.indptr.size(), regions.indptr.span().size_bytes());
  add(GraphTensor::indices, regions.indices.view().size, regions.indices.bytes());
  add(GraphTensor::weights, regions.weights.size(), regions.weights.span().size_bytes());
  add(GraphTensor::original_ids, regions.original_ids.view().size, regions.original_ids.bytes());
  add(GraphTensor::in_degrees, regions.in_degrees.size(), regions.in_degrees.span().size_bytes());
  add(GraphTensor::edge_ids, regions.edge_ids.size(), regions.edge_ids.span().size_bytes());
  if (features.row_bytes() > 0) {
    add(GraphTensor::features, features.rows, static_cast<std::size_t>(features.rows) * features.row_bytes());
  }
  return rows;
}

}  // namespace

std::vector<PlanRow> expected_plan_rows(const GraphPlacement& placement, const tensor::Placement& features) {
  const placement::MachinePlan plan =
      placement::estimate(placement.demands, realised_placements(placement, features), placement.limits);
  std::vector<PlanRow> rows;
  for (const placement::TensorPlan& tensor : plan.tensors) {
    for (const placement::StratumEstimate& s : tensor.strata) {
      rows.push_back({tensor.name, name_of(s.stratum), s.rows, s.rows * tensor.row_bytes,
                      PlanRow::Expected{s.share, s.bytes_per_second}});
    }
  }
  return rows;
}

std::vector<PlanRow> plan_rows(const GraphRegions& regions, const GraphPlacement& placement,
                               const tensor::ChunkTensor& features) {
  return placement.demands.empty() ? host_plan_rows(regions, features.spec())
                                   : expected_plan_rows(placement, features.placement());
}

std::vector<placement::HottestRows> hottest_feature_rows(const GraphPlacement& placement) {
  constexpr std::array kShares{0.5, 0.8, 0.9, 0.95, 0.99};
  for (const placement::TensorDemand& demand : placement.demands)
    if (demand.name == name_of(GraphTensor::features)) return placement::hottest_rows(demand, kShares);
  return {};
}

}  // namespace strata::store
