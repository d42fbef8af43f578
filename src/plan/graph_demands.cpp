// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "strata/plan/graph_placement.hpp"

namespace strata::plan {
namespace {

constexpr std::int64_t kOffsetWidth = sizeof(Count), kDegreeWidth = sizeof(std::int32_t);

/// Rows of one tensor of the structure.
struct StructureRows {
  std::int64_t width = 0;
  Count rows = 0;
  double reads = 0;  ///< of a batch
};

/// Of a tensor that is equally hot everywhere, and stays whole.
TensorDemand demand_of(GraphTensor tensor, const StructureRows& s, const DemandSource& source) {
  return {.name = name_of(tensor),
          .row_bytes = s.width,
          .segments = {HeatCurve::flat(s.rows, s.reads)},
          .rates = rates_of_table(source.rates, {.row_bytes = s.width,
                                                 .table_bytes = s.rows * s.width,
                                                 .host_path = tensor::HostPath::zero_copy}),
          .whole = true};
}

TensorDemand demand_of_indptr(const DemandSource& source, std::span<const ListPart> parts) {
  const Count all_rows = source.sizes.num_lists() + 1;
  const double reads = source.accesses.lists;
  TensorDemand demand =
      demand_of(GraphTensor::indptr, {.width = kOffsetWidth, .rows = all_rows, .reads = reads}, source);
  demand.divisible = true;
  demand.segments.clear();
  for (const ListPart& part : parts) {
    const Count rows = part.nodes + (&part == &parts.back() ? 1 : 0);
    const double share = static_cast<double>(rows) / static_cast<double>(all_rows);
    demand.segments.push_back(HeatCurve::flat(rows, reads * share));
  }
  return demand;
}

/// A visit reads entries that lie together: those on the host in the time of one random row per array.
TensorDemand demand_of_lists(const DemandSource& source, std::span<const ListPart> parts) {
  const RegionSizes& sizes = source.sizes;
  const BatchAccesses& accesses = source.accesses;
  const Count entries = sizes.local_edges;
  TensorDemand demand = demand_of(
      GraphTensor::indices, {.width = sizes.edge_bytes(), .rows = entries, .reads = accesses.lists}, source);
  demand.rows_per_access = accesses.lists > 0 ? std::max(1.0, accesses.neighbors / accesses.lists) : 1;
  demand.rates[tensor::Stratum::host].bytes_per_second *=
      demand.rows_per_access / (1.0 + sizes.weights + sizes.edge_ids);
  demand.divisible = true;
  demand.whole = accesses.list_visits.empty();
  demand.division_bytes = source.directory_bytes;
  demand.segments = accesses.list_visits;
  if (demand.whole) {
    for (const ListPart& part : parts) {
      const double share = static_cast<double>(part.entries) / std::max(1.0, static_cast<double>(entries));
      demand.segments.push_back(HeatCurve::flat(part.entries, accesses.lists * share));
    }
  }
  return demand;
}

TensorDemand demand_of_features(const DemandSource& source) {
  const FeatureShape& features = source.features;
  return {.name = name_of(GraphTensor::features),
          .row_bytes = features.row_pitch(),
          .segments = source.accesses.features,
          .rates = rates_of_table(source.rates, {.row_bytes = features.row_bytes(),
                                                 .table_bytes = features.rows() * features.row_pitch(),
                                                 .host_path = source.host_path})};
}

}  // namespace

std::vector<ListPart> list_parts_of(const Count* indptr, std::span<const Count> part_nodes) {
  std::vector<ListPart> parts;
  for (const Count nodes : part_nodes) {
    parts.push_back({nodes, indptr[nodes] - indptr[0]});
    indptr += nodes;
  }
  return parts;
}

std::vector<std::int64_t> row_lengths(const RegionSizes& sizes, const FeatureShape& features) {
  std::vector<std::int64_t> lengths = {kOffsetWidth, sizes.id_bytes(), sizes.edge_bytes()};
  if (sizes.in_degrees) lengths.push_back(kDegreeWidth);
  if (features.row_bytes() > 0) lengths.push_back(features.row_bytes());
  std::ranges::sort(lengths);
  const auto repeated = std::ranges::unique(lengths);
  lengths.erase(repeated.begin(), repeated.end());
  return lengths;
}

std::vector<TensorDemand> graph_demands(const DemandSource& source) {
  const RegionSizes& sizes = source.sizes;
  const ListPart all{sizes.num_lists(), sizes.local_edges};
  const std::span<const ListPart> parts = source.list_parts.empty() ? std::span(&all, 1) : source.list_parts;
  std::vector<TensorDemand> demands;
  demands.push_back(demand_of_indptr(source, parts));
  demands.push_back(demand_of_lists(source, parts));
  demands.push_back(demand_of(
      GraphTensor::original_ids,
      {.width = sizes.id_bytes(), .rows = sizes.num_nodes, .reads = source.accesses.lists}, source));
  if (sizes.in_degrees) {
    demands.push_back(
        demand_of(GraphTensor::in_degrees,
                  {.width = kDegreeWidth, .rows = sizes.num_nodes, .reads = source.accesses.nodes}, source));
  }
  demands.push_back(demand_of_features(source));
  return demands;
}

bool all_fit(std::span<const TensorDemand> demands, const PlanLimits& limits) {
  std::int64_t bytes = 0;
  for (const TensorDemand& demand : demands) bytes += demand.rows() * demand.row_bytes;
  return bytes <= limits.gpu_bytes;
}

}  // namespace strata::plan
