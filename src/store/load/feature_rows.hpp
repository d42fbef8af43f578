// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <functional>
#include <string>

#include "strata/comm/machine.hpp"
#include "strata/tensor/chunk_tensor.hpp"
#include "strata/util/progress.hpp"
#include "strata/util/thread_pool.hpp"

namespace strata::store {

/// Where the feature rows of a machine come from.
struct FeatureSource {
  /// Reads rows of the machine, in the tensor's type. Several threads may call it at once.
  std::function<void(Count first, Count count, std::byte* out)> read;
  std::function<std::string(Count row)> describe;  ///< used in messages: "parts/part-0.h5, row 7"
  /// The row from which it is best to read if `row` is wanted; empty: any row.
  std::function<Count(Count row)> block_start = {};
  bool on_first_rank_only = false;  ///< the other ranks of the machine cannot read
};

struct FeatureFill {
  const FeatureSource& source;
  bool row_normalize = false;
  ProgressBar& progress;  ///< advanced by the bytes that this rank has read
  ThreadPool& pool;       ///< reads and checks this rank's share
};

/// Fills `tensor`: every rank reads a share of the rows with its pool. If rows lie on GPUs, they go through a
/// shared pinned staging buffer, because replicated rows must reach every GPU. Throws InputError naming
/// source and column for values that are not finite. Collective over the machine; throws on all its ranks
/// alike.
void fill_features(const comm::Machine& machine, tensor::ChunkTensor& tensor, const FeatureFill& fill);

/// Rows in memory. check_rows() throws InputError for a value that is not finite; `describe(i)` names row i
/// of the block. normalize_rows() scales each row so that its absolute values sum to 1 (rows of zeros stay).
struct RowBlock {
  std::byte* data = nullptr;
  Count rows = 0, cols = 0;
  DType dtype = DType::f32;
};
void check_rows(const RowBlock& block, const std::function<std::string(Count)>& describe);
void normalize_rows(const RowBlock& block);

}  // namespace strata::store
