// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cache/list_ranking.hpp"
#include "graph_regions.hpp"
#include "heat.hpp"
#include "strata/placement/path_rates.hpp"
#include "strata/placement/planner.hpp"
#include "strata/store/machine_graph.hpp"
#include "strata/tensor/chunk_tensor.hpp"

namespace strata::store {

/// Rows of one tensor in bytes, for planning.
struct FeatureShape {
  Count cols = 0;
  DType dtype = DType::f32;
  std::vector<Count> part_rows;  ///< of each hosted part, hottest row first; then of the halo, if any
  std::vector<std::uint32_t> halo_occurrences = {};  ///< of its rows, in this machine's lists; empty: no halo

  bool padded = false;  ///< rows begin at multiples of 128 bytes

  std::int64_t row_bytes() const { return cols * static_cast<std::int64_t>(size_of(dtype)); }
  std::int64_t row_pitch() const {
    return static_cast<std::int64_t>(
        tensor::TensorSpec{.name = {}, .cols = cols, .dtype = dtype, .padded = padded}.row_pitch());
  }
  Count rows() const;
};

/// What of a machine's graph goes to the GPUs of it. The host has all of the structure besides.
struct GraphPlacement {
  bool original_ids = false, in_degrees = false;  ///< on every GPU
  tensor::Placement indptr;
  tensor::Placement indices;  ///< and weights and edge ids: a list's entries lie together
  ListRanking lists;          ///< says which lists are copied
  tensor::Placement features;
  placement::RowLayout layout;                   ///< of the features
  std::vector<placement::TensorDemand> demands;  ///< what the plan is for; empty without GPUs
  placement::PlanLimits limits;
  Count presampled_batches = 0;  ///< that `demands` come from; 0: from the structure

  std::int64_t host_feature_bytes(const FeatureShape& shape) const;
};

/// What every placement needs of the host's memory: all structure, and the features that `gpu_bytes` of all
/// GPUs together cannot hold.
std::int64_t least_host_bytes(const RegionSizes& sizes, const FeatureShape& features, std::int64_t gpu_bytes);

/// What plan_placement() may spend.
struct PlacementTask {
  const FeatureShape& features;
  const LoadOptions& options;
  std::int64_t gpu_bytes = 0;  ///< a GPU
  std::int64_t host_bytes =
      std::numeric_limits<std::int64_t>::max();  ///< for feature rows; the same on all ranks
  const NodeIndex* halo = nullptr;               ///< of the features' last segment; null: none
  std::vector<Count> list_parts;                 ///< nodes of each part whose lists are here
};

/// Plans with the heat that the structure shows, or presampled batches where the GPUs cannot each hold all,
/// and the rates measured now. The same on all ranks. Collective
/// over the machine; throws on all of its ranks alike: InputError for a placement asked for that cannot be.
GraphPlacement plan_placement(const comm::Machine& machine, const GraphRegions& regions,
                              const PlacementTask& task);

/// Rates for rows of one length, of a small table.
struct MeasuredRates {
  std::int64_t row_bytes = 0;
  placement::MeasuredPaths paths;
};

/// A part whose lists are here.
struct ListPart {
  Count nodes = 0, entries = 0;
};

/// The tensors that compete for the GPUs; `measured` has the rates for the rows of each. `host_path` is that
/// of features; structure on the host is read by zero copy.
///
/// The planner divides the lists where `accesses` knows how hot they are; a person may always. Weights and
/// edge ids go with `indices`. No list_parts: the lists are one part's.
std::vector<placement::TensorDemand> graph_demands(const RegionSizes& sizes, const FeatureShape& features,
                                                   const BatchAccesses& accesses,
                                                   std::span<const MeasuredRates> measured,
                                                   tensor::HostPath host_path = tensor::HostPath::automatic,
                                                   std::span<const ListPart> list_parts = {});

/// Does every GPU have room for all tensors? Then no plan hangs on their heat.
bool all_fit(std::span<const placement::TensorDemand> demands, const placement::PlanLimits& limits);

/// The plan as realised, for the banner.
std::vector<MachineGraph::PlanRow> plan_rows(const GraphRegions& regions, const GraphPlacement& placement,
                                             const tensor::ChunkTensor& features);

}  // namespace strata::store
