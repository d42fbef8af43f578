// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "strata/cuda/stream.hpp"
#include "strata/graph/synthetic.hpp"
#include "strata/util/types.hpp"

/// Launchers of the kernels that make synthetic graphs. All are asynchronous on `stream`, whose device must
/// be current.
namespace strata::store {

/// Consecutive lists of kind=lognormal.
struct ListTask {
  graph::KeyedWords words;
  NodeId num_nodes = 0;
  NodeId first_node = 0;  ///< the node of the first list
  Count num_lists = 0;
  const Count* offsets = nullptr;  ///< [num_lists + 1] device: entries of each list, numbered over all lists
  bool drop_self_loops = false, drop_duplicates = false;
};

/// Adds the number of entries to drop to *dropped, and sets kept[i] to the number of entries of list i that
/// stay.
///
/// dropped  device    kept  [num_lists] device, or null
void count_entries(const ListTask& task, Count* dropped, Count* kept, const cuda::Stream& stream);

/// Where the entries that stay go: list i begins at out[begins[i] - begins[0]].
struct ListOutput {
  const Count* begins = nullptr;  ///< [num_lists + 1] device
  void* out = nullptr;            ///< device, i64 if wide, else i32
  bool wide = false;
};
void write_lists(const ListTask& task, const ListOutput& output, const cuda::Stream& stream);

/// Consecutive feature rows.
struct FeatureTask {
  graph::FeatureFormula formula;         ///< with class means on the device
  NodeId first_node = 0;                 ///< of row 0
  Count rows = 0;                        ///< rows * cols below 2^32
  const std::int32_t* labels = nullptr;  ///< [rows] device; not read if features are random
  DType made_as = DType::f32;            ///< type to which the formula's values are rounded
  bool normalize = false;                ///< ReadOptions::normalize_features; the result is f32
  bool row_normalize = false;            ///< LoadOptions::row_normalize
  double* row_sums = nullptr;            ///< [2, rows] device, scratch for both
};
/// out  [rows, cols] device, of type made_as, or f32 with `normalize`
void write_features(const FeatureTask& task, void* out, const cuda::Stream& stream);

}  // namespace strata::store
