// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "strata/plan/graph_shape.hpp"
#include "strata/plan/heat.hpp"
#include "strata/plan/planner.hpp"
#include "strata/plan/rates.hpp"

namespace strata::plan {

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
  std::span<const tensor::MeasuredPaths> rates;              ///< for the rows of each tensor
  tensor::HostPath host_path = tensor::HostPath::automatic;  ///< of features; structure uses zero copy
  std::span<const ListPart> list_parts = {};                 ///< none: the lists are one part's
  /// Per GPU, to find copied lists, for each stratum there that has only some of them.
  std::int64_t directory_bytes = 0;
};

/// The tensors that compete for the GPUs, called as name_of(GraphTensor) says.
///
/// The planner divides the lists where `accesses` knows how hot they are; a person may always. Weights and
/// edge ids go with `indices`.
std::vector<TensorDemand> graph_demands(const DemandSource& source);

/// Has every GPU room for all tensors? Then no plan depends on their heat.
bool all_fit(std::span<const TensorDemand> demands, const PlanLimits& limits);

}  // namespace strata::plan
