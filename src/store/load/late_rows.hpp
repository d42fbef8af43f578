// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <vector>

#include "load/feature_rows.hpp"
#include "strata/comm/machine.hpp"
#include "strata/store/machine_graph.hpp"
#include "strata/tensor/chunk_tensor.hpp"
#include "strata/util/ranges.hpp"

namespace strata::store {

/// The rows that are in place before training begins: the hottest of each segment, and all that must be
/// written by every rank of several. The others are late.
struct HotAndLate {
  std::vector<Range> hot, late;
  Count late_rows() const;
};
HotAndLate hot_and_late(const tensor::Placement& placement, int machine_ranks);

/// How late rows are read.
struct LateReading {
  /// Reads whole blocks and checks them against their hashes, in the background.
  FeatureSource checked;
  /// Reads single rows at once and does not check them; the background finds damage in them later.
  FeatureSource single;
  RowForm form = {};
  int threads = 1;  ///< of this rank, in the background
  /// What the sources read from lives as long as the reading.
  std::shared_ptr<const void> keep_alive = nullptr;
};

/// Begins to read the late rows into `tensor`, which outlives the result. Collective over the machine.
std::unique_ptr<FeatureArrival> read_late(const comm::Machine& machine, tensor::ChunkTensor& tensor,
                                          std::vector<Range> late, LateReading reading);

}  // namespace strata::store
