// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <optional>
#include <vector>

#include "strata/graph/graph.hpp"
#include "strata/graph/npy.hpp"
#include "strata/util/scratch.hpp"
#include "strata/util/thread_pool.hpp"

namespace strata::graph {

/// Files about nodes that come without a description: .npy, or .csv with or without gzip. All throw
/// InputError naming the file.

/// The rows of an array or a table; none if it is a scalar.
std::optional<Count> rows_of_file(const std::filesystem::path& path, ThreadPool& pool);

/// `scratch` as for features_of().
FeatureTable read_features_file(const std::filesystem::path& path, Count num_nodes, ThreadPool& pool,
                                ScratchStore* scratch);

/// Sets labels, multi_label and num_classes of the graph.
void read_labels_file(Graph& graph, const std::filesystem::path& path, ThreadPool& pool);

/// The nodes at which a mask is true: bools, or integers 0 and 1, one per node.
std::vector<NodeId> nodes_of_mask(const NpyArray& mask, Count num_nodes);

/// The nodes of a split: ids, or the nodes at which a mask is true.
std::vector<NodeId> read_split_file(const std::filesystem::path& path, Count num_nodes, ThreadPool& pool);

}  // namespace strata::graph
