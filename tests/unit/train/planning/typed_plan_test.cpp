// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "planned_run.hpp"
#include "planning/described_batches.hpp"
#include "planning/plan.hpp"
#include "strata/graph/read_graph.hpp"
#include "strata/graph/relation_ranges.hpp"
#include "strata/util/error.hpp"
#include "support/expect_error.hpp"
#include "support/random_dataset.hpp"
#include "support/temporary_folder.hpp"
#include "support/typed_graph.hpp"

namespace strata::train {
namespace {

/// Picks and sublists of one hop of all training nodes, which `taken` says of (relation, neighbors over it).
BatchProfile::Hop expected_hop(const graph::Graph& graph, const std::function<Count(int, Count)>& taken) {
  const graph::Sublists& sublists = graph.structure.sublists;
  BatchProfile::Hop hop{.nodes = static_cast<double>(graph.splits.train.size())};
  for (const NodeId node : graph.splits.train)
    for (Count s = sublists.first[at(node)]; s < sublists.first[at(node) + 1]; ++s) {
      const Count picks =
          taken(sublists.relations[at(s)], sublists.begins[at(s) + 1] - sublists.begins[at(s)]);
      hop.picks += static_cast<double>(picks);
      hop.sublists += picks > 0;
    }
  return hop;
}

TEST(TypedBatchProfile, PicksFromEachRelation) {
  const graph::Graph graph = test::random_typed_graph({.seed = 4});
  const test::TemporaryFolder folder;
  const test::PartitionedDataset parts(graph, 3, folder / "parts", 4);
  const std::size_t relations = graph.types.edges.size();
  const auto profiled = [&](std::vector<int> fanouts) {
    ProfiledJob job{.global_batch = std::ssize(graph.splits.train), .fanouts = {2}, .batches = 1};
    if (!fanouts.empty()) job.relation_fanouts = {std::move(fanouts)};
    return profile_batches(parts.directory(), parts.manifest(), job).hops.front();
  };
  const auto expect_same = [](const BatchProfile::Hop& found, const BatchProfile::Hop& expected) {
    EXPECT_DOUBLE_EQ(found.nodes, expected.nodes);
    EXPECT_DOUBLE_EQ(found.picks, expected.picks);
    EXPECT_DOUBLE_EQ(found.sublists, expected.sublists);
  };
  expect_same(profiled({}), expected_hop(graph, [](int, Count all) { return std::min<Count>(all, 2); }));
  for (std::size_t r = 0; r < relations; ++r) {
    SCOPED_TRACE(graph::name_of(graph.types.edges[r]));
    std::vector<int> only(relations);
    only[r] = -1;
    expect_same(profiled(only),
                expected_hop(graph, [&](int of, Count all) { return at(Count{of}) == r ? all : 0; }));
  }
}

// Seeds are a machine's own.
TEST(TypedBatchProfile, CountsNoCopiesAsRemote) {
  const graph::Graph graph = test::random_typed_graph({.seed = 4});
  const test::TemporaryFolder folder;
  const test::PartitionedDataset parts(graph, 2, folder / "parts", 4);
  graph::Manifest manifest = parts.manifest();
  ProfiledJob job{.machines = 2,
                  .ranks_per_machine = 1,
                  .global_batch = std::ssize(graph.splits.train),
                  .fanouts = {-1, -1},
                  .batches = 2};
  const auto profiled = [&] { return profile_batches(parts.directory(), manifest, job); };
  const BatchProfile none = profiled();
  manifest.replicated_types = {2, 3};  // authors and venues
  const BatchProfile others = profiled();
  EXPECT_EQ(others.inputs, none.inputs);
  EXPECT_EQ(others.hops[1].picks, none.hops[1].picks);
  EXPECT_LT(others.remote_inputs, none.remote_inputs);
  EXPECT_GT(others.remote_inputs, 0);
  EXPECT_LT(others.hops[1].remote_nodes, none.hops[1].remote_nodes);
  manifest.replicated_types = {0, 2, 3};
  const BatchProfile all = profiled();
  EXPECT_EQ(all.remote_inputs, 0);
  EXPECT_EQ(all.remote_visits(), 0);
  job.train_edges_only = true;
  const BatchProfile inductive = profiled();
  EXPECT_EQ(inductive.remote_inputs, 0);
  EXPECT_GT(inductive.remote_visits(), 0) << "lists are not copied";
  EXPECT_LT(inductive.hops[0].picks, none.hops[0].picks);
}

TEST(CopiedNodes, TakeTheirRowsAndLists) {
  const graph::Graph graph = test::random_typed_graph({.authors = 70, .venues = 6, .seed = 4});
  const test::TemporaryFolder folder;
  graph::Manifest manifest = test::PartitionedDataset(graph, 2, folder / "parts", 4).manifest();
  manifest.replicated_types = {2, 3};
  const plan::CopiedNodes copied = plan::CopiedNodes::of(manifest);
  EXPECT_EQ(copied.nodes, 76);
  EXPECT_EQ(copied.entries, graph.structure.num_edges() - graph.structure.indptr[120]) << "after 120 papers";
  const std::int64_t rows = copied.bytes({.rows = true, .lists = false, .row_bytes = 100}, {}, 2);
  EXPECT_EQ(rows, 76 * (100 + 2 * 16));
  EXPECT_GT(copied.bytes({.rows = true, .lists = true, .row_bytes = 100}, {.edge_ids = true}, 2),
            rows + copied.entries * (4 + 8));
}

TEST(Described, BatchesAreLikeThoseOfTheGraph) {
  const graph::Source source("synthetic:igbh,scale=0.0001,cols=2,seed=3");
  const graph::Graph graph = graph::read_graph(source, {.duplicates = graph::EdgePolicy::keep});
  const test::TemporaryFolder folder;
  const test::PartitionedDataset parts(graph, 2, folder / "parts", 3);
  const ProfiledJob job{.machines = 2, .ranks_per_machine = 1, .global_batch = 400, .fanouts = {6, 4, 3}};
  const BatchProfile real = profile_batches(parts.directory(), parts.manifest(), job);
  const graph::Description described = graph::describe(source).value();
  const graph::Manifest manifest = manifest_of(described, 2);
  EXPECT_EQ(manifest.types.nodes, graph.types.nodes);
  EXPECT_EQ(manifest.types.edges, graph.types.edges);
  EXPECT_EQ(manifest.types.node_offsets, graph.types.node_offsets);
  EXPECT_EQ(manifest.book.num_nodes(), graph.num_nodes());
  EXPECT_EQ(manifest.num_classes, graph.num_classes);
  EXPECT_EQ(manifest.num_train, std::ssize(graph.splits.train));
  const BatchProfile found = profile_described(described, manifest, job);
  const auto expect_near = [](double value, double expected) { EXPECT_NEAR(value / expected, 1, 0.12); };
  for (std::size_t hop = 0; hop < 3; ++hop) {
    SCOPED_TRACE(hop);
    expect_near(found.hops[hop].nodes, real.hops[hop].nodes);
    expect_near(found.hops[hop].picks, real.hops[hop].picks);
    expect_near(found.hops[hop].sublists, real.hops[hop].sublists);
  }
  EXPECT_GT(found.inputs, real.inputs);
  EXPECT_LT(found.inputs, 1.25 * real.inputs)
      << "reverse relations lead back, which a description cannot know";
  EXPECT_NEAR(found.remote_inputs / found.inputs, 0.5, 0.05) << "nodes belong to machines at random";
  EXPECT_EQ(found.steps_per_epoch, real.steps_per_epoch);
  EXPECT_GT(found.heat[2], 0.3) << "a quarter of the rows";
  EXPECT_LT(found.heat[1], 1);
}

TrainConfig igbh_config(nn::ModelKind model) {
  TrainConfig config;
  config.graph = "synthetic:igbh,scale=0.001";
  config.model = model;
  config.fanouts = {5, 3};
  config.hidden = 64;
  config.batch_size = 100;
  return config;
}

TEST(Described, GraphsAreBudgetedWithTheirTypes) {
  const plan::Cluster cluster = plan::parse_cluster("machines=2,gpus=2");
  const StepPlan plan = make_plan(igbh_config(nn::ModelKind::rgcn), cluster);
  const graph::Manifest manifest = manifest_of(*graph::describe("synthetic:igbh,scale=0.001"), 2);
  EXPECT_GT(plan.memory.structure_bytes, manifest.num_edges * (4 + 8)) << "neighbors, and ids of edges";
  EXPECT_GT(plan.profile.hops[0].sublists, 100) << "a paper has several relations";
  EXPECT_TRUE(plan.memory.fits_gpu);
  EXPECT_FALSE(manifest.replicated_types.empty()) << "conferences are few";
  EXPECT_GT(plan.memory.copies_bytes, 0);
  EXPECT_LT(plan.memory.copies_bytes, plan.memory.structure_bytes / 10);
  const StepPlan hgt = make_plan(igbh_config(nn::ModelKind::hgt), cluster);
  EXPECT_GT(hgt.inputs.compute_seconds, plan.inputs.compute_seconds) << "it maps each neighbor";
  TrainConfig fewer = igbh_config(nn::ModelKind::rgcn);
  fewer.relation_fanouts = {{.relation = "cites", .fanouts = {1, 0}}};
  EXPECT_LT(make_plan(fewer, cluster).profile.inputs, plan.profile.inputs);
  test::expect_error<InputError>([&] { make_plan(igbh_config(nn::ModelKind::sage), cluster); },
                                 {"--model sage", "6 types of nodes", "rgcn"});
  fewer.relation_fanouts.front().relation = "sites";
  test::expect_error<InputError>([&] { make_plan(fewer, cluster); }, {"no relation \"sites\""});
}

graph::Description described(const std::string& text) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "graph.json") << text;
  return graph::describe((folder / "graph.json").string()).value();
}

TEST(Described, FilesSayWhatAGraphHas) {
  const graph::Description typed = described(R"({"features": {"cols": 16, "dtype": "f16"}, "classes": 4,
      "types": {"nodes": [{"name": "paper", "nodes": 30, "splits": {"train": 15}}, {"name": "author", "nodes": 9}],
                "relations": [{"source": "author", "name": "writes", "destination": "paper", "edges": 90}]}})");
  EXPECT_EQ(typed.manifest.types.node_offsets, (std::vector<NodeId>{0, 30, 39}));
  EXPECT_EQ(typed.manifest.num_edges, 90);
  EXPECT_EQ(typed.manifest.feature_dtype, DType::f16);
  EXPECT_EQ(typed.manifest.num_train, 15);
  const graph::Description one =
      described(R"({"num_nodes": 10, "num_edges": 40, "splits": {"train": 5}, "labels": {"classes": 3}})");
  EXPECT_FALSE(one.manifest.types.several());
  EXPECT_EQ(one.manifest.num_classes, 3);
  EXPECT_FALSE(graph::describe("synthetic:kind=sbm"));
  EXPECT_FALSE(graph::describe("/nowhere.json"));
}

TEST(Described, FilesThatDescribeNothingAreRefused) {
  const auto refused = [](const std::string& text, const char* word) {
    test::expect_error<InputError>([&] { described(text); }, {"graph.json", word});
  };
  refused("{", "describes no graph");
  refused(R"({"num_edges": 1})", "num_nodes");
  refused(R"({"num_nodes": -3, "num_edges": 1})", "-3 num_nodes");
  refused(R"({"num_nodes": 3, "num_edges": 1})", "no training nodes");
  refused(R"({"num_nodes": 3, "num_edges": 1, "splits": {"train": 4}})", "4 training nodes among 3");
  refused(R"({"num_nodes": 3, "num_edges": 1, "features": {"cols": 2, "dtype": "i8"}})", "\"i8\"");
  refused(R"({"types": {"nodes": [{"name": "a", "nodes": 2}],
              "relations": [{"source": "b", "name": "r", "destination": "a", "edges": 1}]}})",
          "\"b\"");
}

}  // namespace
}  // namespace strata::train
