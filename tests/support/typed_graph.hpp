// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/graph/graph.hpp"

namespace strata::test {

struct TypedGraphOptions {
  Count papers = 120, authors = 70, venues = 6;
  int more_relations = 0;  ///< from papers to papers, of few edges each
  bool weights = false;
  Count feature_cols = 5;  ///< of papers; authors have 2, venues none
  std::uint64_t seed = 1;
};

/// A random graph of four types, of which one has no nodes: a relation within a type and one parallel to it,
/// relations between types in both directions, one without edges. Papers have labels and splits; edges are
/// repeated and self-loops occur.
graph::Graph random_typed_graph(const TypedGraphOptions& options);

}  // namespace strata::test
