// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>

#include "strata/graph/graph.hpp"
#include "strata/graph/source.hpp"

namespace strata::graph {

/// Files about the nodes of a graph that lie elsewhere than its edges: .npy, or tables of text.
/// Each replaces what the dataset itself has; empty paths name none.
struct NodeFiles {
  std::filesystem::path features = {}, labels = {};
  std::filesystem::path train = {}, valid = {}, test = {};  ///< ids, or masks (bool)

  bool any() const {
    return !(features.empty() && labels.empty() && train.empty() && valid.empty() && test.empty());
  }
};

/// Reads a dataset or makes a graph. docs/data.md describes every format, its files, their shapes and types.
///
/// A dataset that does not say whether its edges have a direction is taken as it is listed (ogb: as
/// undirected), with a warning; `undirected` is set if every edge has its opposite. Paths in metadata.yaml
/// that are absolute or contain ".." are refused unless `allow_outside_paths` is set. Lists of edges whose
/// ids are not the nodes' numbers give `node_names`.
///
/// A partition directory or a planted graph is put together again: by original ids, with features as they are
/// stored; of `options`, only normalize_features and the number of threads matter then.
///
/// Labels are one class per node, or a matrix of 0 and 1 with one column per class, which makes the graph
/// multi_label. A row that is all nan or all -1 has no label.
///
/// f32 and f16 features of npy files are mapped, not copied. The result is the same for every number of
/// threads. Throws InputError with the file, the field or line, and the remedy: unknown key, empty files (an
/// array of shape (0,) and gzip of no text are sets without nodes), ids out of range, NaN features, labels
/// out of range, splits that overlap, edge weights that are negative or not finite, names that are not UTF-8.
/// Throws OutOfMemory, before work begins if that is known by then.
Graph read_graph(const Source& source, const ReadOptions& options = {}, const NodeFiles& files = {});

}  // namespace strata::graph
