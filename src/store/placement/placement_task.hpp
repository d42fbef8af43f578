// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <limits>
#include <vector>

#include "cache/read_counts.hpp"
#include "placement/feature_shape.hpp"
#include "strata/store/halo.hpp"
#include "strata/store/load_options.hpp"

namespace strata::store {

/// What plan_placement() plans for, and what it may spend.
struct PlacementTask {
  const FeatureShape& features;
  const LoadOptions& options;
  std::int64_t gpu_bytes = 0;  ///< per GPU
  std::int64_t host_bytes =
      std::numeric_limits<std::int64_t>::max();  ///< for feature rows; the same on all ranks
  const NodeIndex* halo = nullptr;               ///< of the features' last segment; null: none
  std::vector<Count> list_parts;                 ///< nodes of each part whose lists are here
  /// What batches of this machine read, and of other machines here; null: not counted yet.
  const ReadCounts* counts = nullptr;
  const ServedReads* served = nullptr;
};

}  // namespace strata::store
