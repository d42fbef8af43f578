// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "graph_regions.hpp"
#include "heat.hpp"
#include "placement/feature_shape.hpp"
#include "placement/measured_rates.hpp"
#include "strata/placement/planner.hpp"

namespace strata::store {

/// A part whose lists are here.
struct ListPart {
  Count nodes = 0, entries = 0;
};

/// The parts of these numbers of nodes, with the entries of their lists.
///
/// indptr  [sum of part_nodes + 1] host
std::vector<ListPart> list_parts_of(const Count* indptr, std::span<const Count> part_nodes);

/// Bytes of the rows for which demands need rates: ascending, each once.
std::vector<std::int64_t> row_lengths(const RegionSizes& sizes, const FeatureShape& features);

/// What demands are made of.
struct DemandSource {
  const RegionSizes& sizes;
  const FeatureShape& features;
  const BatchAccesses& accesses;
  std::span<const MeasuredRates> rates;                      ///< for the rows of each tensor
  tensor::HostPath host_path = tensor::HostPath::automatic;  ///< of features; structure uses zero copy
  std::span<const ListPart> list_parts = {};                 ///< none: the lists are one part's
};

/// The tensors that compete for the GPUs, called as name_of(GraphTensor) says.
///
/// The planner divides the lists where `accesses` knows how hot they are; a person may always. Weights and
/// edge ids go with `indices`.
std::vector<placement::TensorDemand> graph_demands(const DemandSource& source);

/// Has every GPU room for all tensors? Then no plan depends on their heat.
bool all_fit(std::span<const placement::TensorDemand> demands, const placement::PlanLimits& limits);

}  // namespace strata::store
