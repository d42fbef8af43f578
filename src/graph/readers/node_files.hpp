// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <optional>
#include <vector>

#include "strata/graph/graph.hpp"
#include "strata/graph/npy.hpp"
#include "strata/util/scratch.hpp"
#include "strata/util/threads.hpp"

namespace strata::graph {

/// Files about nodes that come without a description: arrays of NumPy, recognized by their first bytes, or
/// tables of text, see node_table.hpp. All throw InputError naming the file.

/// How many nodes a file has rows for. Blank lines at its end may be further ones; where it has ids, there
/// may be any number of others without a row.
struct NodesOfFile {
  Count nodes = 0;
  Count spare = 0;  ///< as many more there may be
};
/// The nodes of a file; none if it is a scalar, or if its ids do not number nodes.
std::optional<NodesOfFile> nodes_of_file(const std::filesystem::path& path, ThreadPool& pool);

/// The features of the graph's nodes. `scratch` as for features_of().
FeatureTable read_features_file(const Graph& graph, const std::filesystem::path& path, ThreadPool& pool,
                                ScratchStore* scratch);

/// Sets labels, multi_label, num_classes and target_cols of the graph. A table of text is read in pieces, as small as
/// `scratch` wants.
void read_labels_file(Graph& graph, const std::filesystem::path& path, ThreadPool& pool,
                      const ScratchStore* scratch, LabelKind kind = LabelKind::classes);

/// The nodes at which a mask is true: bools, or integers 0 and 1, one per node.
std::vector<NodeId> nodes_of_mask(const NpyArray& mask, Count num_nodes);

/// The nodes of a split: ids, or the nodes at which a mask is true. A column of text that is called as ids
/// are holds the names of the graph's nodes, if they have some.
std::vector<NodeId> read_split_file(const Graph& graph, const std::filesystem::path& path, ThreadPool& pool);

}  // namespace strata::graph
