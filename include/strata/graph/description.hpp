// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <vector>

#include "strata/graph/part_file.hpp"
#include "strata/graph/source.hpp"

namespace strata::graph {

/// A graph of which nobody needs the edges: how many nodes, edges and columns it has of each type.
struct Description {
  Manifest manifest;       ///< without a partition book
  std::size_t target = 0;  ///< the type of the training nodes
  /// [relations] the share of a relation's edges whose sources are skewed, as in synthetic graphs, and whose
  /// destinations are uniform; of the others it is the other way round.
  std::vector<double> source_skew = {};

  Count num_nodes() const { return manifest.types.node_offsets.back(); }
};

/// What is known of a graph without its edges: of synthetic:igbh, and of a .json file such as `strata-partition
/// info --json` prints, with "source_skew" of relations if wanted: without it, ends are skewed of the type that has
/// fewer nodes. Nothing for other sources. Throws InputError for a file that describes no graph.
///
///     {"features": {"cols": 16, "dtype": "f16"}, "classes": 4,
///      "types": {"nodes": [{"name": "paper", "nodes": 3000, "splits": {"train": 1500}}, ...],
///                "relations": [{"source": "author", "name": "writes", "destination": "paper", "edges": 9000}]}}
std::optional<Description> describe(const Source& source);

}  // namespace strata::graph
