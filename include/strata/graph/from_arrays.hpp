// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>

#include "strata/graph/graph.hpp"
#include "strata/graph/npy.hpp"

namespace strata::graph {

/// A graph as arrays in host memory, by the names of npy: folders (docs/data.md). An array without data is
/// absent; `origin` names it in messages.
struct GraphArrays {
  std::string name = "arrays";
  NpyArray edge_index;   ///< (2, E) integers: sources, then destinations
  NpyArray edge_weight;  ///< (E,)
  NpyArray x;  ///< (N, columns); f32 and f16 in C order stay where they are, and `keep_alive` is held
  NpyArray y;  ///< (N,) classes, or (N, classes) of 0 and 1
  NpyArray train, valid, test;     ///< ids, or masks (N,) of bool
  std::optional<Count> num_nodes;  ///< unset: the rows of `x` or `y`, or the largest id + 1
};

/// Puts the graph together as read_graph() does a npy: folder, with the same checks. Edge e of `edge_index`
/// has the id e. Throws InputError and OutOfMemory.
Graph graph_from_arrays(const GraphArrays& arrays, const ReadOptions& options);

}  // namespace strata::graph
