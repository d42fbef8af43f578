// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "strata/graph/part_file.hpp"
#include "strata/util/random.hpp"
#include "strata/util/threads.hpp"
#include "strata/util/types.hpp"

namespace strata::graph {

/// A draw of the edges that are held out for validation and for tests. It is keyed by the original ids of an
/// edge's ends, so that it depends on neither parts nor ranks, and all edges between two nodes, in both
/// directions, are in the same split. Graphs that are split when they are loaded, and when parts are built, are
/// split alike.
struct EdgeSplit {
  std::uint64_t seed = 0;
  double valid = 0, test = 0;        ///< shares of the pairs of nodes
  std::vector<bool> relations = {};  ///< those whose edges are drawn; empty: all

  bool holds_out() const { return valid > 0 || test > 0; }
  bool draws(int relation) const { return relations.empty() || relations[at(Count{relation})]; }
  Split of(NodeId a, NodeId b) const {
    constexpr BatchKey kNoStep{.seed = 0, .epoch = ~std::uint32_t{0}, .step = 0};
    BatchKey key = kNoStep;
    key.seed = seed;
    const std::uint64_t low = node_key(key, RandomUse::epoch_order, 1, std::min(a, b));
    const double point = unit_double(mix64(low ^ mix64(static_cast<std::uint64_t>(std::max(a, b)))));
    return point < valid ? Split::valid : point < valid + test ? Split::test : Split::train;
  }
};

/// Marks the relations with these numbers and their reverses, which are (paper, rev_writes, author) for (author,
/// writes, paper).
std::vector<bool> with_reverses(const GraphTypes& types, const std::vector<std::size_t>& relations);

/// The edges of a graph that are to be predicted: shares of them, or given ones.
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
/// of one split, in both directions: those of the chosen relations and of their reverses. About so many pairs as the
/// shares say are drawn, by EdgeSplit with this seed. Throws InputError for relations and ids that do not exist, for
/// ids of both splits, and if there are edge splits already.
void split_edges(Graph& graph, const EdgeSplitOptions& options, std::uint64_t seed, ThreadPool& pool);

}  // namespace strata::graph
