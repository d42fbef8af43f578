// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <string>
#include <vector>

#include "build_csc.hpp"
#include "readers/csv.hpp"
#include "strata/graph/graph.hpp"
#include "strata/graph/npy.hpp"
#include "strata/util/scratch.hpp"

namespace strata::graph {

/// Conversions of arrays to parts of a graph, for all kinds of files. All throw InputError naming the array's
/// origin.

/// Row-major, uninitialised memory for features, aligned to 64 bytes; in a scratch file if there is a store.
/// Throws OutOfMemory, IoError.
struct FeatureMemory {
  FeatureTable table;
  std::byte* bytes = nullptr;  ///< what table.data points to
};
FeatureMemory allocate_features(Count rows, Count cols, DType dtype, ScratchStore* scratch = nullptr);

/// Features of an array of shape (rows, cols) or (rows,). f32 and f16 in C order are used in place; every
/// other type becomes f32. NaN and infinite values are refused. `scratch`, if there is one, bounds how much
/// of a mapped array becomes resident, and holds what is converted.
FeatureTable features_of(const NpyArray& array, Count rows, ThreadPool& pool,
                         ScratchStore* scratch = nullptr);
FeatureTable features_of(CsvTable<float> table, const std::string& origin, ThreadPool& pool);
/// The same from a file; the values then lie in a scratch file. Rows are those of all nodes, or of `nodes` if
/// there are some: a permutation.
FeatureTable read_csv_features(const std::filesystem::path& path, const CsvExpectation& expected,
                               ThreadPool& pool, ScratchStore* scratch, std::span<const NodeId> nodes = {});

/// A copy as f32 in which the absolute values of each row sum to 1; rows of zeros stay. It lies in a
/// scratch file if there is a store.
FeatureTable normalized(const FeatureTable& features, ThreadPool& pool, ScratchStore* scratch = nullptr);

/// Elements of a vector or a column (N, 1); `what` is the subject of the message.
Count column_size(const NpyArray& array, const char* what);

/// Integer ids of a one-dimensional array, or of a column (N, 1).
std::vector<NodeId> ids_of(const NpyArray& array);

/// Labels of some nodes.
struct NodeLabels {
  Count rows = 0;
  Count set_of = 0;   ///< number of classes if a node may have several; 0: one class per node
  Count targets = 0;  ///< columns of targets of regression; 0: labels are classes
  std::vector<std::int32_t> values = {};  ///< [rows, words()]

  LabelShape shape() const { return {.classes = set_of, .sets = set_of > 0, .targets = targets}; }
  Count words() const { return shape().words(); }
};

/// Class labels from a one-dimensional array or a column; NaN and -1 mean a missing label and become -1. Or
/// sets of classes from a matrix of 0 and 1 with one column per class; a row of NaN or -1 has no label. Or
/// targets, any numbers that f32 can have, of which NaN are missing.
NodeLabels labels_of(const NpyArray& array, LabelKind kind = LabelKind::classes);
NodeLabels labels_of(const CsvPiece<double>& rows, const std::string& origin,
                     LabelKind kind = LabelKind::classes);
/// The labels of a table as text, which is read in pieces.
NodeLabels read_csv_labels(const std::filesystem::path& path, const CsvExpectation& expected,
                           ThreadPool& pool, const ScratchStore* scratch,
                           LabelKind kind = LabelKind::classes);
/// Labels that are all missing.
NodeLabels missing_labels(Count rows, const LabelShape& shape);

/// Weights of nodes from integers of shape (rows,) or (rows, kinds): each from 0, of 31 bits.
NodeWeights node_weights_of(const NpyArray& array, Count rows);

/// Edges of an integer array of shape (2, E) or (E, 2), read in place if the type allows it. An array of
/// shape (2, 2) is read as (2, E).
struct EdgeArray {
  EdgeList list;
  NpyArray source;                    ///< keeps `list` valid
  std::vector<std::int64_t> wide;     ///< keeps `list` valid instead if the type had to be widened
  ScratchArray<std::int64_t> stored;  ///< the same in a scratch file
};
EdgeArray edges_of(const NpyArray& array, ScratchStore* scratch = nullptr);

}  // namespace strata::graph
