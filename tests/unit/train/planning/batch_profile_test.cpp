// SPDX-License-Identifier: Apache-2.0
#include "planning/batch_profile.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <numeric>

#include "strata/graph/manifest_file.hpp"
#include "strata/util/error.hpp"
#include "support/expect_error.hpp"
#include "support/random_dataset.hpp"
#include "support/temporary_folder.hpp"

namespace strata::train {
namespace {

graph::PlantedSpec spec_with(const char* within, int parts = 4) {
  return graph::parse_planted("parts=" + std::to_string(parts) + ",within=" + within +
                              ",nodes=8000,edges=80000,features=8,classes=4,train=2000,seed=3");
}

BatchProfile profile(const graph::PlantedSpec& spec, const ProfiledJob& job) {
  return profile_batches(spec, graph::read_manifest(spec), job);
}

TEST(BatchProfile, FindsNothingRemoteOnOneMachine) {
  const BatchProfile found = profile(spec_with("0.9"), {.global_batch = 100, .fanouts = {5, 3}});
  ASSERT_EQ(found.hops.size(), 2u);
  EXPECT_EQ(found.batches, 4);
  EXPECT_EQ(found.steps_per_epoch, 20);
  EXPECT_DOUBLE_EQ(found.hops[0].nodes, 100);
  EXPECT_GT(found.hops[0].picks, 400) << "most nodes have five neighbors";
  EXPECT_LE(found.hops[0].picks, 500);
  EXPECT_LE(found.hops[1].nodes, found.hops[0].nodes + found.hops[0].picks);
  EXPECT_LE(found.hops[1].picks, 3 * found.hops[1].nodes);
  EXPECT_GE(found.inputs, found.hops[1].nodes);
  EXPECT_EQ(found.hops[1].remote_nodes + found.remote_inputs, 0);
  EXPECT_DOUBLE_EQ(found.heat[0], 1);
}

// An edge leaves its part with probability 0.4; its other end lies in one of three other parts.
TEST(BatchProfile, FindsTheShareOfEdgesThatLeave) {
  const ProfiledJob job{
      .machines = 4, .ranks_per_machine = 1, .global_batch = 800, .fanouts = {10, 5}, .batches = 8};
  const BatchProfile found = profile(spec_with("0.6"), job);
  EXPECT_NEAR(found.hops[0].nodes, 200, 30);
  EXPECT_EQ(found.hops[0].remote_nodes, 0) << "seeds are the machine's own";
  const double new_nodes = found.hops[1].nodes - found.hops[0].nodes;
  EXPECT_NEAR(found.hops[1].remote_nodes / new_nodes, 0.45, 0.08) << "distinct ones: far nodes repeat less";
  const BatchProfile on_two =
      profile(spec_with("0.6"), {.machines = 2, .global_batch = 400, .fanouts = {10, 5}, .batches = 8});
  EXPECT_LT(on_two.remote_inputs / on_two.inputs, 0.75 * found.remote_inputs / found.inputs);
}

TEST(BatchProfile, KnowsThatTheFirstRowsOfAPartAreHot) {
  const BatchProfile found =
      profile(spec_with("0.6"), {.machines = 2, .global_batch = 100, .fanouts = {5, 3}});
  EXPECT_GT(found.heat[2], 0.3) << "a quarter of the rows";
  for (std::size_t level = 1; level < found.heat.size(); ++level) {
    EXPECT_LE(found.heat[level], found.heat[level - 1]);
    EXPECT_LE(found.remote_heat[level], found.remote_heat[level - 1]);
  }
}

TEST(BatchProfile, TakesAllNeighborsAndNone) {
  const BatchProfile all = profile(spec_with("0.9"), {.global_batch = 50, .fanouts = {-1, 0}});
  EXPECT_GT(all.hops[0].picks, 50 * 5);
  EXPECT_EQ(all.hops[1].picks, 0);
  EXPECT_DOUBLE_EQ(all.inputs, all.hops[1].nodes);
}

TEST(BatchProfile, RepeatsItself) {
  const ProfiledJob job{.machines = 2, .global_batch = 100, .fanouts = {5, 3}};
  EXPECT_EQ(profile(spec_with("0.6"), job).inputs, profile(spec_with("0.6"), job).inputs);
}

/// Profiles batches of one part of 40 nodes in a ring, with a change that the hashes of its file cover.
void profile_changed(const std::function<void(graph::PartData&)>& change, bool train_edges_only = false) {
  const test::TemporaryFolder folder;
  constexpr Count kNodes = 40;
  graph::PartData data;
  data.indptr = {0};
  for (NodeId node = 0; node < kNodes; ++node) {
    data.indices.push_back((node + 1) % kNodes);
    data.indptr.push_back(node + 1);
    data.edge_ids.push_back(node);
    data.original_ids.push_back(node);
    data.train.rows.push_back(node);
    data.train.ranks.push_back(node);
  }
  change(data);
  graph::PartitionRecord record;
  record.manifest = {.name = "ring",
                     .build_id = "00000000deadbeef",
                     .book = graph::PartitionBook{{0, kNodes}},
                     .num_edges = kNodes,
                     .num_train = kNodes};
  record.parts = {graph::write_part(folder.path(), record.manifest, data, {})};
  graph::write_manifest(folder.path(), record);
  profile_batches(folder.path(), graph::read_manifest(folder.path()),
                  {.global_batch = kNodes, .fanouts = {3, 3}, .train_edges_only = train_edges_only});
}

TEST(BatchProfile, RefusesWhatPointsOutsideTheGraph) {
  profile_changed([](graph::PartData&) {});
  for (const bool train_edges_only : {false, true}) {
    for (const NodeId bad : {NodeId{40}, NodeId{99'999'999}, NodeId{-7}}) {
      const std::string number = std::to_string(bad);
      test::expect_error<InputError>(
          [&] { profile_changed([&](auto& data) { data.indices[11] = bad; }, train_edges_only); },
          {"part-00000.h5", "indices[11] is " + number, "nodes are 0 to 39"});
      test::expect_error<InputError>(
          [&] { profile_changed([&](auto& data) { data.train.rows[5] = bad; }, train_edges_only); },
          {"part-00000.h5", "row " + number + " of 40"});
      test::expect_error<InputError>(
          [&] { profile_changed([&](auto& data) { data.train.ranks[5] = bad; }, train_edges_only); },
          {"part-00000.h5", "rank " + number + " of 40"});
      test::expect_error<InputError>(
          [&] { profile_changed([&](auto& data) { data.indptr[7] = 50 + bad; }, train_edges_only); },
          {"part-00000.h5", "indptr gives row"});
    }
  }
}

TEST(BatchProfile, ReadsWhatItIsAskedToVerify) {
  const test::TemporaryFolder folder;
  const auto graph = test::random_dataset({.seed = 5});
  const test::PartitionedDataset parts(*graph, 1, folder / "parts", 5);
  const auto record = graph::read_partition_record(parts.directory());
  const auto& datasets = record.parts.front().datasets;
  const auto indices = std::ranges::find_if(
      datasets, [](const graph::DatasetRecord& d) { return d.name.ends_with("indices"); });
  ASSERT_NE(indices, datasets.end());
  {
    std::fstream file(graph::part_path(parts.directory(), 0),
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(indices->offset);
    file.put(static_cast<char>(file.peek() ^ 1));  // another node of the graph
  }
  ProfiledJob job{.global_batch = 1000, .fanouts = {-1, -1}};
  const auto look = [&] { profile_batches(parts.directory(), record.manifest, job); };
  test::expect_error<InputError>(look, {"part-00000.h5", "indices", "changed since the parts were built"});
  job.verify = graph::Verify::off;
  look();
}

TEST(BatchProfile, RefusesMoreMachinesThanParts) {
  test::expect_error<InputError>(
      [] { profile(spec_with("0.6"), {.machines = 5, .global_batch = 100, .fanouts = {5}}); },
      {"5 machines"});
}

}  // namespace
}  // namespace strata::train
