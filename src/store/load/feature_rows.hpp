// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "strata/comm/machine.hpp"
#include "strata/graph/part_file.hpp"
#include "strata/tensor/chunk_tensor.hpp"
#include "strata/util/log.hpp"
#include "strata/util/ranges.hpp"
#include "strata/util/threads.hpp"

namespace strata::store {

/// Where the feature rows of a machine come from.
struct FeatureSource {
  /// Reads rows of the machine. Several threads may call it at once.
  std::function<void(Count first, Count count, std::byte* out)> read;
  std::function<std::string(Count row)> describe;  ///< used in messages: "parts/part-0.h5, row 7"
  /// The row from which it is best to read if `row` is wanted; empty: any row.
  std::function<Count(Count row)> block_start = {};
  bool on_first_rank_only = false;  ///< the other ranks of the machine cannot read
};

/// The type of rows as a source gives them.
struct RowType {
  Count cols = 0;
  DType dtype = DType::f32;
  RowCode code = {};

  std::size_t row_bytes() const { return code ? at(code.row_bytes()) : at(cols) * size_of(dtype); }
};
inline RowType type_of_rows(const graph::Manifest& manifest) {
  return {manifest.feature_cols, manifest.feature_dtype, manifest.feature_code};
}

/// What becomes of rows as they are read.
struct RowForm {
  RowType type;  ///< of the source; that of the tensor, or floats that are compressed to the tensor's code
  bool row_normalize = false;
  /// Rows from this one on are rounded to bf16, and keep their type.
  Count bf16_from = std::numeric_limits<Count>::max();
};

struct RowDestination {
  Range rows;
  std::byte* data = nullptr;
};

/// Reads rows, checks them, normalises and compresses them to `code` where they are floats. Throws InputError
/// naming source and column for values that are not finite. Several threads may call it at once.
void read_rows(const FeatureSource& source, const RowForm& form, const RowCode& code,
               const RowDestination& to);

struct FeatureFill {
  const FeatureSource& source;
  RowForm form;
  ProgressBar& progress;         ///< advanced by the bytes that this rank has read
  ThreadPool& pool;              ///< reads and checks this rank's share
  std::vector<Range> rows = {};  ///< what to fill; empty: all rows
};

/// Fills rows of `tensor`: every rank reads a share of the rows with its pool. If rows lie on GPUs, they go
/// through a shared pinned staging buffer, because replicated rows must reach every GPU. Throws as
/// read_rows(), and InputError for compressed rows that are to be normalised. Collective over the machine;
/// throws on all its ranks alike.
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
