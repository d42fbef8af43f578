// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "strata/plan/graph_shape.hpp"
#include "strata/plan/heat.hpp"
#include "strata/plan/placement.hpp"
#include "strata/plan/rates.hpp"
#include "strata/tensor/placement.hpp"
#include "strata/util/ranges.hpp"
#include "strata/util/threads.hpp"

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

/// Ranks the neighbor lists of some parts by how many visits of a batch each of their bytes would serve if it
/// was copied to GPUs. A list in host memory costs one translation of an address, whether it is short or
/// long, so short lists of hot nodes come first. A value.
///
/// Lists are ordered by level (DensityLevels) of visits per entry; within a level by node.
class ListRanking {
 public:
  static constexpr int kLevels = DensityLevels::kLevels;

  ListRanking() = default;
  /// `visits` to a list of each bucket of BucketMap(part_nodes). Empty: they are not known, and assumed to
  /// fall with the square root of a node's position in its part. Looks at this rank's share of the lists with
  /// all threads of the pool.
  ///
  /// indptr  [sum of part_nodes + 1] host
  ListRanking(const Count* indptr, std::vector<Count> part_nodes, std::span<const double> visits,
              RankShare share, ThreadPool& pool);

  std::span<std::int64_t> sums() { return entries_; }  ///< see RankShare

  /// Heat of the entries in the order of the ranking, by part, scaled so that a batch visits `visits` lists.
  /// Empty if visits are not known.
  std::vector<HeatCurve> curves(double visits) const;

  /// The lists that come first in the ranking of a part.
  struct Cut {
    int level = kLevels;  ///< the lists of all higher levels, and of this one ...
    Count end = 0;        ///< ... those of the nodes of the part before
    Count entries = 0;    ///< in all
  };
  /// The first lists that together have at most `entries` entries, up to the first that has no room.
  Cut cut(const Count* indptr, std::size_t part, Count entries, ThreadPool& pool) const;

  std::span<const Count> part_nodes() const { return part_nodes_; }
  /// Calls visit(row of the part, degree, level) for nodes [rows.first, rows.end()) of a part that have
  /// neighbors, ascending.
  template <typename Visit>
  void for_each_list(const Count* indptr, std::size_t part, Range rows, Visit&& visit) const {
    const Count* const begins = indptr + map_.first_row(part);
    for (Count row = rows.first; row < rows.end();) {
      const int bucket = row_buckets::of(row);
      const Count end = std::min(rows.end(), row_buckets::begin(bucket + 1));
      const auto visits = static_cast<float>(visits_[map_.bucket_of_segment(part, bucket)]);
      for (; row < end; ++row) {
        const Count degree = begins[row + 1] - begins[row];
        if (degree > 0) visit(row, degree, DensityLevels::of(visits / static_cast<float>(degree)));
      }
    }
  }

 private:
  std::vector<Count> part_nodes_;
  bool known_ = false;
  BucketMap map_{std::span<const Count>{}};
  std::vector<double> visits_;  // visits to one list, by bucket
  std::vector<Count> entries_;  // by part and level
};

// From the demands of a graph's tensors to what lies where. Pure functions.

/// What the planner is asked: which of these tensors lie where within these limits?
struct GraphDemand {
  std::vector<TensorDemand> tensors;
  PlanLimits limits;
};

/// What of a machine's graph goes to its GPUs. The host has all of the structure besides.
struct GraphPlacement {
  bool original_ids = false, in_degrees = false;  ///< on every GPU
  tensor::Placement indptr;
  tensor::Placement indices;  ///< and weights and edge ids: a list's entries lie together
  ListRanking lists;          ///< says which lists are copied
  tensor::Placement features;
  RowLayout layout;                   ///< of the features
  std::vector<TensorDemand> demands;  ///< what the plan is for; empty without GPUs
  PlanLimits limits;
  Count presampled_batches = 0;  ///< that `demands` come from; 0: from the structure

  /// Of feature rows of this shape, laid out as `layout` says.
  std::int64_t host_feature_bytes(const FeatureShape& shape) const;
};

/// What `limits` leave of each GPU beside the input rows of batches.
PlanLimits without_inputs(PlanLimits limits, const BatchAccesses& accesses, std::int64_t bytes_per_input_row);

/// The answer, together with the question.
struct ChosenPlan {
  GraphDemand demand;  ///< with what a person has fixed
  MachinePlan plan;
};

/// Keeps to the request, and lets the planner choose the rest. Throws InputError for a request that cannot be
/// met.
ChosenPlan choose_plan(GraphDemand demand, const PlacementRequest& request);

/// The placement that a plan stands for, without the ranking of lists and the layout of features, of which
/// the plan knows nothing.
GraphPlacement realise(ChosenPlan chosen);

/// The placement of a machine without GPUs. Throws InputError for a request that wants some.
GraphPlacement place_on_host(const RegionSizes& sizes, const FeatureShape& features, const PlanLimits& limits,
                             const PlacementRequest& request);

/// Where the tensors of the demands lie in the end, one per demand: without peer access, stripes have gone to
/// the host. `features` is what became of placement.features.
std::vector<tensor::Placement> realised_placements(const GraphPlacement& placement,
                                                   const tensor::Placement& features);

/// What lies where, for the banner.
struct PlanRow {
  std::string tensor, stratum;  ///< replicated, striped, host
  Count rows;
  std::int64_t bytes;  ///< on each GPU for replicated rows, on the whole machine for others
  struct Expected {
    double share;             ///< of the accesses to the tensor
    double bytes_per_second;  ///< useful bytes that one GPU would read if it read only this stratum
  };
  std::optional<Expected> expected;  ///< set on machines with GPUs, for the tensors that the plan is about
};

/// The rows of a placement once all is placed; `spec` is that of the features, and `features` what became of
/// placement.features.
std::vector<PlanRow> plan_rows(const RegionSizes& sizes, const tensor::TensorSpec& spec,
                               const GraphPlacement& placement, const tensor::Placement& features);

/// How many feature rows serve which share of the reads; empty without a plan of them.
std::vector<HottestRows> hottest_feature_rows(const GraphPlacement& placement);

}  // namespace strata::plan
