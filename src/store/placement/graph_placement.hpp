// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "cache/list_ranking.hpp"
#include "placement/feature_shape.hpp"
#include "strata/placement/path_rates.hpp"
#include "strata/placement/planner.hpp"
#include "strata/tensor/chunk_tensor.hpp"

namespace strata::store {

/// What of a machine's graph goes to its GPUs. The host has all of the structure besides.
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

  /// Of feature rows of this shape, laid out as `layout` says.
  std::int64_t host_feature_bytes(const FeatureShape& shape) const;
};

}  // namespace strata::store
