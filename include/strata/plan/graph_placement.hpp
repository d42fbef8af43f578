// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/plan/graph_demands.hpp"
#include "strata/plan/list_ranking.hpp"
#include "strata/plan/placement_request.hpp"
#include "strata/plan/planner.hpp"
#include "strata/plan/rates.hpp"
#include "strata/tensor/placement.hpp"

/// From the demands of a graph's tensors to what lies where. Pure functions.
namespace strata::plan {

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
