// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "strata/graph/read_graph.hpp"
#include "strata/graph/stored_graph.hpp"
#include "support/temporary_folder.hpp"

namespace strata::graph {

/// The in-neighbors of a node over a relation.
inline std::vector<NodeId> sublist(const CscGraph& graph, NodeId node, RelationId relation) {
  const Sublists& lists = graph.sublists;
  for (Count s = lists.first[at(node)]; s < lists.first[at(node) + 1]; ++s)
    if (lists.relations[at(s)] == relation)
      return {graph.indices.begin() + lists.begins[at(s)], graph.indices.begin() + lists.begins[at(s) + 1]};
  return {};
}

inline std::vector<float> row(const Graph& graph, NodeId node) {
  const auto* const values = reinterpret_cast<const float*>(graph.features.data) + node * graph.features.cols;
  return {values, values + graph.features.cols};
}

/// Expects the graph of the input, whether its lists lie in memory or in scratch files.
inline void expect_same_on_disk(const std::string& spec, const ReadOptions& options = {}) {
  const test::TemporaryFolder folder;
  ScratchStore scratch(folder.path(), 64 << 20);
  const Graph expected = read_graph(spec, options);
  const StoredGraph stored = read_stored_graph(Source(spec), options, {}, scratch);
  const Graph& got = stored.graph;
  const auto ids = [](const IdSpan& span) {
    std::vector<std::int64_t> values;
    for (Count i = 0; i < span.size; ++i) values.push_back(span[i]);
    return values;
  };
  ASSERT_TRUE(stored.lists) << spec;
  EXPECT_EQ(got.num_nodes(), expected.num_nodes()) << spec;
  EXPECT_EQ(stored.lists->indptr, expected.structure.indptr) << spec;
  EXPECT_EQ(ids(stored.lists->indices), expected.structure.indices) << spec;
  EXPECT_EQ(ids(stored.lists->edge_ids), expected.structure.edge_ids) << spec;
  const auto weights = stored.lists->weights.span();
  EXPECT_EQ(std::vector<float>(weights.begin(), weights.end()), expected.structure.weights) << spec;
  EXPECT_EQ(got.types.node_offsets, expected.types.node_offsets) << spec;
  EXPECT_EQ(got.types.edge_offsets, expected.types.edge_offsets) << spec;
  EXPECT_EQ(got.types.feature_cols, expected.types.feature_cols) << spec;
  EXPECT_EQ(got.cleaning.duplicates_removed, expected.cleaning.duplicates_removed) << spec;
  EXPECT_EQ(got.cleaning.self_loops, expected.cleaning.self_loops) << spec;
  EXPECT_EQ(got.labels, expected.labels) << spec;
  EXPECT_EQ(got.splits.train, expected.splits.train) << spec;
  EXPECT_EQ(got.node_names, expected.node_names) << spec;
  ASSERT_EQ(got.features.row_bytes(), expected.features.row_bytes()) << spec;
  EXPECT_EQ(got.features.rows, expected.features.rows) << spec;
  const std::size_t bytes = at(expected.features.rows) * expected.features.row_bytes();
  EXPECT_TRUE(bytes == 0 || std::memcmp(got.features.data, expected.features.data, bytes) == 0) << spec;
}

}  // namespace strata::graph
