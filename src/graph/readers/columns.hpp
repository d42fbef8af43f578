// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "build_csc.hpp"
#include "readers/csv.hpp"
#include "strata/graph/graph.hpp"
#include "strata/graph/npy.hpp"

namespace strata::graph {

/// What readers make of arrays, whatever file they come from. All throw InputError naming the array's origin.

/// Row-major memory for features that nothing has written yet, aligned to 64 bytes. Throws OutOfMemory.
struct FeatureMemory {
  FeatureTable table;
  std::byte* bytes = nullptr;  ///< what table.data points to
};
FeatureMemory allocate_features(Count rows, Count cols, DType dtype);

/// Features of an array of shape (rows, cols) or (rows,). f32 and f16 in C order are referred to in place;
/// every other type becomes f32. NaN and infinite values are refused.
FeatureTable features_of(const NpyArray& array, Count rows, ThreadPool& pool);
FeatureTable features_of(CsvTable<float> table, const std::string& origin, ThreadPool& pool);

/// Each row scaled to a sum of absolute values of 1, as f32; rows of zeros stay.
FeatureTable normalized(const FeatureTable& features, ThreadPool& pool);

/// Integer ids of a one-dimensional array, or of a column (N, 1).
std::vector<NodeId> ids_of(const NpyArray& array);

/// Labels of some nodes.
struct NodeLabels {
  Count rows = 0;
  Count set_of = 0;                  ///< classes, of which a node may have several; 0: one class a node
  std::vector<std::int32_t> values;  ///< [rows], or [rows, label_set_words(set_of)]

  Count words() const { return set_of == 0 ? 1 : label_set_words(set_of); }
};

/// Class labels of a one-dimensional array or a column; NaN and -1 stand for a missing label and give -1. Or
/// sets of classes of a matrix of 0 and 1, a column a class; a row of NaN or -1 is without label.
NodeLabels labels_of(const NpyArray& array);
NodeLabels labels_of(const CsvTable<double>& table, const std::string& origin);

/// Weights of edges, in the order of the edges: a one-dimensional array, or column `column` of a matrix.
/// Throws InputError: no such column, a weight that is_edge_weight() refuses.
std::vector<float> edge_weights_of(const NpyArray& array);
std::vector<float> edge_weights_of(const NpyArray& array, Count column);
std::vector<float> edge_weights_of(const CsvTable<float>& table, Count column, const std::string& origin);

/// Gives every entry of the lists the weight of its edge. REQUIRES: a weight of each edge that was read.
void give_weights(CscGraph& graph, const std::vector<float>& of_edges);

/// Edges of an integer array of shape (2, E) or (E, 2), read in place where the type allows. (2, 2) is two
/// rows.
struct EdgeArray {
  EdgeList list;
  NpyArray source;                 ///< keeps `list` valid, unless
  std::vector<std::int64_t> wide;  ///< its type had to be widened
};
EdgeArray edges_of(const NpyArray& array);
EdgeList edges_of(const CsvTable<NodeId>& table, const std::string& origin);

}  // namespace strata::graph
