// SPDX-License-Identifier: Apache-2.0
#include "support/machine_graph_cases.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "strata/batches/placed_graph.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::test {

using store::GraphView;
using store::LoadOptions;
using store::MachineGraph;

namespace {

std::vector<float> rows_of(const MachineGraph& machine_graph) {
  const GraphView& view = machine_graph.host_view();
  std::vector<NodeId> ids(at(view.num_local));
  std::iota(ids.begin(), ids.end(), view.first_node);
  std::vector<float> rows(ids.size() * at(machine_graph.features().spec().cols));
  ThreadPool pool(1);
  machine_graph.features().gather({.data = ids.data(), .size = std::ssize(ids), .first = view.first_node},
                                  rows.data(), cuda::Stream(), pool);
  return rows;
}

std::vector<NodeId> originals(std::span<const NodeId> globals, const GraphView& view) {
  std::vector<NodeId> ids;
  for (const NodeId global : globals) ids.push_back(view.original_ids[global]);
  return ids;
}

/// The features as `format` keeps them.
std::vector<float> kept_features(const graph::Graph& graph, plan::FeatureFormat format) {
  std::vector<float> features = features_as_floats(graph);
  if (format == plan::FeatureFormat::stored) return features;
  const RowCode code{.kind = code_named(enum_name(format)), .cols = graph.features.cols};
  std::vector<std::byte> coded(at(code.row_bytes()));
  for (Count row = 0; row < graph.features.rows; ++row) {
    code.encode(features.data() + row * code.cols, coded.data());
    code.decode(coded.data(), features.data() + row * code.cols);
  }
  return features;
}

/// Every list, edge id, label, degree and feature of the machine's nodes, through original ids.
void expect_local_nodes(const MachineGraph& loaded, const graph::Graph& graph, const LoadOptions& options) {
  const GraphView& view = loaded.host_view();
  const std::vector<float> features = kept_features(graph, options.feature_format), rows = rows_of(loaded);
  const auto cols = at(graph.features.cols);
  for (Count row = 0; row < view.num_local; ++row) {
    const auto original = at(view.original_ids[view.first_node + row]);
    const auto begin = graph.structure.indptr[original], end = graph.structure.indptr[original + 1];
    ASSERT_EQ(view.indptr[row + 1] - view.indptr[row], end - begin);
    for (Count e = 0; e < end - begin; ++e) {
      const Count edge = view.indptr[row] + e;
      ASSERT_EQ(view.original_ids[view.indices[edge]], graph.structure.indices[at(begin + e)]);
      if (options.edge_ids) {
        ASSERT_EQ(view.edge_ids[edge], graph.structure.edge_ids[at(begin + e)]);
      }
      if (options.edge_weights) {
        ASSERT_EQ(view.weights[edge], graph.structure.weights[at(begin + e)]);
      }
    }
    const auto words = at(graph.label_words());
    for (std::size_t w = 0; !graph.labels.empty() && w < words; ++w) {
      ASSERT_EQ(loaded.labels()[at(row) * words + w], graph.labels[original * words + w]);
    }
    float sum = 0;
    for (std::size_t c = 0; c < cols; ++c) sum += std::abs(features[original * cols + c]);
    const float scale = options.row_normalize && sum > 0 ? 1 / sum : 1;
    for (std::size_t c = 0; c < cols; ++c) {
      ASSERT_NEAR(rows[at(row) * cols + c], features[original * cols + c] * scale,
                  options.row_normalize ? 4e-3 : 0);
    }
  }
}

void expect_all_nodes(const MachineGraph& loaded, const graph::Graph& graph, const LoadOptions& options) {
  const GraphView& view = loaded.host_view();
  std::vector<NodeId> ids = ids_of(view.original_ids);
  ASSERT_EQ(std::ssize(ids), graph.num_nodes());
  EXPECT_EQ(view.in_degrees != nullptr, options.in_degrees);
  for (std::size_t v = 0; options.in_degrees && v < ids.size(); ++v) {
    const auto original = at(ids[v]);
    const Count begin = graph.structure.indptr[original], end = graph.structure.indptr[original + 1];
    const auto list = std::span(graph.structure.indices).subspan(at(begin), at(end - begin));
    const Count loops =
        options.degrees_of_loops ? 0 : std::ranges::count(list, static_cast<NodeId>(original));
    ASSERT_EQ(view.in_degrees[v], end - begin - loops);
  }
  std::ranges::sort(ids);
  for (std::size_t v = 0; v < ids.size(); ++v) ASSERT_EQ(ids[v], static_cast<NodeId>(v));
}

void expect_splits(const MachineGraph& loaded, const graph::Graph& graph) {
  const GraphView& view = loaded.host_view();
  EXPECT_EQ(originals(loaded.train_nodes(), view), graph.splits.train);
  const auto expect_split = [&](std::span<const NodeId> nodes, const std::vector<NodeId>& all) {
    EXPECT_TRUE(std::ranges::is_sorted(nodes));
    std::vector<NodeId> mine = originals(nodes, view), expected;
    std::ranges::sort(mine);
    std::vector<bool> local(at(view.num_nodes));
    for (Count v = 0; v < view.num_local; ++v) local[at(view.original_ids[view.first_node + v])] = true;
    std::ranges::copy_if(all, std::back_inserter(expected), [&](NodeId v) { return local[at(v)]; });
    EXPECT_EQ(mine, expected);
  };
  expect_split(loaded.valid_nodes(), graph.splits.valid);
  expect_split(loaded.test_nodes(), graph.splits.test);
}

void expect_train_clusters(const MachineGraph& loaded) {
  const std::span<const std::int32_t> clusters = loaded.train_clusters();
  if (clusters.empty()) return;
  const std::span<const NodeId> nodes = loaded.train_nodes();
  ASSERT_EQ(clusters.size(), nodes.size());
  const Count each = loaded.manifest().num_clusters;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const bool own = loaded.host_view().owns(nodes[i]);
    const Count cluster =
        loaded.manifest().book.part_of(nodes[i]) * each + loaded.host_view().original_ids[nodes[i]] % each;
    ASSERT_EQ(clusters[i], own ? cluster : -1) << "training node " << i;
  }
}

}  // namespace

void expect_is(const MachineGraph& loaded, const graph::Graph& graph, const LoadOptions& options) {
  EXPECT_EQ(loaded.manifest().book.num_nodes(), graph.num_nodes());
  EXPECT_EQ(loaded.host_view().num_nodes, graph.num_nodes());
  EXPECT_EQ(loaded.host_view().edge_ids.size, options.edge_ids ? loaded.host_view().indices.size : 0);
  EXPECT_EQ(loaded.host_view().weights != nullptr, options.edge_weights);
  EXPECT_EQ(loaded.labels().empty(), graph.labels.empty());
  expect_all_nodes(loaded, graph, options);
  expect_local_nodes(loaded, graph, options);
  expect_splits(loaded, graph);
  expect_train_clusters(loaded);
}

void expect_list(const GraphView& view, Count row, NodeId original, const graph::Graph& graph) {
  const auto begin = graph.structure.indptr[at(original)], end = graph.structure.indptr[at(original) + 1];
  ASSERT_EQ(view.indptr[row + 1] - view.indptr[row], end - begin);
  for (Count e = 0; e < end - begin; ++e) {
    const Count edge = view.indptr[row] + e;
    ASSERT_EQ(view.original_ids[view.indices[edge]], graph.structure.indices[at(begin + e)]);
    if (view.edge_ids.size > 0) {
      ASSERT_EQ(view.edge_ids[edge], graph.structure.edge_ids[at(begin + e)]);
    }
  }
}

void expect_loads(const LoadCase& c) {
  SCOPED_TRACE(testing::Message() << c.num_parts << " parts, " << c.ranks_per_machine
                                  << " ranks a machine, seed " << c.dataset.seed);
  const RunSetup run(c.ranks_per_machine);
  const Parts parts(c.dataset, c.num_parts);
  MachineGraph loaded = batches::load_parts(parts.directory(), run.ranks(), c.options);
  EXPECT_EQ(loaded.arrival() != nullptr, c.options.late_features);
  world().communicator().together([&] {
    if (loaded.arrival() != nullptr) loaded.arrival()->finish();
  });
  expect_is(loaded, parts.graph(), c.options);
  const std::span<const NodeId> offsets = loaded.machine_offsets();
  ASSERT_EQ(std::ssize(offsets), run.topology.num_machines() + 1);
  const bool needs_clusters = c.dataset.num_clusters > 0 && run.machine.size() > 1;
  EXPECT_EQ(std::ssize(loaded.train_clusters()), needs_clusters ? std::ssize(loaded.train_nodes()) : 0);
  EXPECT_EQ(loaded.host_view().first_node, offsets[at(run.machine.index())]);
  for (NodeId v = 0; v < loaded.host_view().num_nodes; ++v) {
    ASSERT_EQ(loaded.machine_of(v) == run.machine.index(), loaded.host_view().owns(v));
  }
  loaded.close(run.machine);
}

}  // namespace strata::test
