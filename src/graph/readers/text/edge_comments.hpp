// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "strata/util/types.hpp"

namespace strata::graph {

/// The facts that archives state about a graph in comments before its list of edges:
///
///     # Undirected graph: x.txt        % sym unweighted
///     # Nodes: 4 Edges: 3              % 3 4 4
///
/// as SNAP (left) and KONECT write it: directions, and the numbers of nodes and edges.
class EdgeComments {
 public:
  explicit EdgeComments(std::string path) : path_(std::move(path)) {}

  /// Throws InputError for a comment that begins a file of another format, or a graph of two kinds of nodes.
  void note(std::string_view comment);

  std::optional<bool> undirected() const { return undirected_; }
  std::optional<Count> nodes() const { return nodes_; }

  /// Compares what was read with what is stated. `renumbered` says that only nodes with edges have numbers.
  ///
  /// Throws InputError where they do not agree; warns of nodes without edges that got no number.
  void check_nodes(Count nodes, bool renumbered) const;
  void check_edges(Count edges, Count self_loops) const;

 private:
  void note_direction(const std::string& text);
  void note_konect(const std::string& text);

  std::string path_;
  std::optional<bool> undirected_;
  std::optional<Count> nodes_, edges_;
  bool konect_ = false;
};

}  // namespace strata::graph
