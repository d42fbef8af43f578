// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "strata/graph/graph.hpp"
#include "strata/util/threads.hpp"

namespace strata::graph {

/// Which edges of a graph are to be predicted: shares of them, or given ones.
struct EdgeSplitOptions {
  double valid = 0, test = 0;  ///< shares of the pairs of nodes that have edges
  /// Files of positions among the edges of a relation as the input lists them, or masks; see NodeFiles.
  std::filesystem::path valid_ids = {}, test_ids = {};
  /// Relations whose edges are split, such as "author__writes__paper"; empty: all.
  std::vector<std::string> relations = {};

  bool draws() const { return valid > 0 || test > 0; }
  bool any() const { return draws() || !valid_ids.empty() || !test_ids.empty(); }
};

/// Moves edges of validation and test out of the lists to graph.edge_splits. All edges between two nodes are
/// of one split, in both directions: those of the chosen relations and of their reverses, which are (paper,
/// rev_writes, author) for (author, writes, paper), or the relation itself if it is within a type.
///
/// Draws are keyed by the seed and the two nodes' original ids, so that neither the order of edges nor parts
/// matter; about so many pairs as the shares say are drawn. Throws InputError for relations and ids that do
/// not exist, for ids of both splits, and if there are edge splits already.
void split_edges(Graph& graph, const EdgeSplitOptions& options, std::uint64_t seed, ThreadPool& pool);

}  // namespace strata::graph
