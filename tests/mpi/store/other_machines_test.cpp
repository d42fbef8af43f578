// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>

#include "strata/batches/placed_graph.hpp"
#include "strata/cuda/stream.hpp"
#include "support/machine_graph_cases.hpp"

namespace strata::store {
namespace {

using test::expect_list;
using test::expect_loads;
using test::Parts;
using test::RunSetup;

/// How often the nodes of other machines occur in the lists of this machine's nodes.
std::map<NodeId, Count> halo_of(const GraphView& view) {
  std::map<NodeId, Count> halo;
  for (Count e = view.indptr[0]; e < view.indptr[view.num_local]; ++e)
    if (!view.owns(view.indices[e])) ++halo[view.indices[e]];
  return halo;
}

TEST(Load, KeepsTheStructureOfAllNodesIfAsked) {
  std::uint64_t seed = 70;
  for (const plan::Replication replication : {plan::Replication::on, plan::Replication::automatic}) {
    for (const bool more : {false, true}) {
      const LoadOptions options{.edge_ids = more, .in_degrees = more, .replication = replication};
      expect_loads({4, 1, {.seed = ++seed}, options});
      const RunSetup run(1);
      const Parts parts({.seed = seed}, 4);
      MachineGraph loaded = batches::load_parts(parts.directory(), run.ranks(), options);
      EXPECT_EQ(loaded.is_replicated(), test::world().size() > 1);
      const GraphView& all = loaded.view();
      ASSERT_EQ(all.first_node, 0);
      ASSERT_EQ(all.num_local, all.num_nodes);
      for (NodeId v = 0; v < all.num_nodes; ++v) expect_list(all, v, all.original_ids[v], parts.graph());
      loaded.close(run.machine);
    }
  }
}

TEST(Load, KeepsWhatOfOtherMachinesSavesMostPerByte) {
  if (test::world().size() == 1) GTEST_SKIP() << "needs two machines";
  constexpr Count kCols = 11, kRowBytes = kCols * 4 + 16;
  for (const std::int64_t budget : {1 << 24, 20000, 1}) {
    const RunSetup run(1);
    const Parts parts({.num_nodes = 3000, .num_edges = 20000, .feature_cols = kCols, .seed = 80}, 3);
    MachineGraph loaded = batches::load_parts(
        parts.directory(), run.ranks(),
        {.edge_ids = true, .batch = {.seeds = 10, .fanouts = {3, 3}}, .halo_bytes = budget});
    const GraphView& view = loaded.host_view();
    std::map<NodeId, Count> halo = halo_of(view);
    for (NodeId node = 0; node < view.num_nodes; ++node)
      if (!view.owns(node)) halo.try_emplace(node, 0);

    const std::vector<Count>& indptr = parts.graph().structure.indptr;

    // Lists, each behind its alias. Of equally long ones, those that occur more often.
    Count bytes = 0, kept_lists = 0;
    std::map<Count, Count> coldest, hottest_left;  // by degree
    for (const auto& [node, occurrences] : halo) {
      const Count kept = loaded.halo_lists() ? loaded.halo_lists()->index.find(node) : -1;
      const auto original = at(view.original_ids[node]);
      const Count degree = indptr[original + 1] - indptr[original];
      if (kept < 0) {
        hottest_left[degree] = std::max(hottest_left[degree], occurrences);
        continue;
      }
      ++kept_lists;
      const GraphView& lists = loaded.halo_lists()->view;
      coldest[degree] = coldest.contains(degree) ? std::min(coldest[degree], occurrences) : occurrences;
      bytes += degree * 12 + 8 + 4 + 16;
      ASSERT_EQ(lists.original_ids[lists.first_node + kept], view.original_ids[node]);
      expect_list(lists, kept, view.original_ids[node], parts.graph());
    }
    for (const auto& [degree, occurrences] : coldest) EXPECT_LE(hottest_left[degree], occurrences) << degree;

    // Rows, behind those of the machine, the hottest first.
    const std::vector<float> features = test::features_as_floats(parts.graph());
    ThreadPool pool(1);
    Count kept_rows = 0, coldest_row = 1 << 30, hottest_row_left = 0;
    std::map<Count, Count> occurrences_of_row;
    for (const auto& [node, occurrences] : halo) {
      const Count kept = loaded.halo_rows() ? loaded.halo_rows()->find(node) : -1;
      if (kept < 0) {
        hottest_row_left = std::max(hottest_row_left, occurrences);
        continue;
      }
      ++kept_rows;
      coldest_row = std::min(coldest_row, occurrences);
      occurrences_of_row[kept] = occurrences;
      std::vector<float> row(kCols);
      const NodeId id = view.num_local + kept;
      loaded.features().gather({.data = &id, .size = 1}, row.data(), cuda::Stream(), pool);
      const auto original = at(view.original_ids[node]);
      for (std::size_t c = 0; c < kCols; ++c) ASSERT_EQ(row[c], features[original * kCols + c]);
    }
    EXPECT_LE(hottest_row_left, coldest_row);
    EXPECT_EQ(loaded.features().spec().rows, view.num_local + kept_rows);
    EXPECT_LE(bytes + kept_rows * kRowBytes, budget);
    for (auto [kept, occurrences] : occurrences_of_row) {
      if (kept > 0) {
        EXPECT_LE(occurrences, 2 * occurrences_of_row.at(kept - 1) + 1);
      }
    }
    const Count all = std::ssize(halo);
    if (budget == 1 << 24) {
      EXPECT_EQ(kept_rows, all);
      EXPECT_EQ(kept_lists, all);
    } else if (budget == 20000) {
      EXPECT_GT(kept_rows, 50);
      EXPECT_LT(kept_rows, all);
      EXPECT_GT(kept_rows * kRowBytes + bytes, budget * 9 / 10);
    } else {
      EXPECT_EQ(kept_rows, 0);
      EXPECT_EQ(loaded.halo_lists(), nullptr);
    }
    loaded.close(run.machine);
  }
}

// Every machine generates its own parts, and of the others what its halo needs.
TEST(Load, GeneratesPlantedParts) {
  const graph::PartsOrigin origin = graph::parse_planted(
      "nodes=1200,degree=9,parts=3,within=0.7,features=6,classes=4,train=120,valid=60,test=30,seed=5");
  const graph::Manifest manifest = graph::read_manifest(origin);
  const RunSetup run(1);
  MachineGraph loaded = batches::load_parts(
      origin, run.ranks(),
      {.in_degrees = true, .batch = {.seeds = 10, .fanouts = {3, 3}}, .halo_bytes = 20000});
  const GraphView& view = loaded.host_view();
  EXPECT_EQ(view.num_nodes, 1200);
  ThreadPool pool(1);
  for (int p = 0; p < 3; ++p) {
    const graph::PartReader part = graph::PartReader::open(origin, manifest, p);
    std::vector<Count> indptr(at(part.num_inner()) + 1);
    part.read_indptr(0, std::ssize(indptr), indptr.data());
    std::vector<NodeId> indices(at(part.num_edges()));
    part.read_indices(0, std::ssize(indices), indices.data());
    for (Count row = 0; row < part.num_inner(); ++row) {
      const NodeId node = manifest.book.global_of(p, row);
      const Count begin = indptr[at(row)], end = indptr[at(row) + 1];
      ASSERT_EQ(view.original_ids[node], node);
      ASSERT_EQ(view.in_degrees[node], end - begin);
      const Count kept = loaded.halo_rows() ? loaded.halo_rows()->find(node) : -1;
      if (!view.owns(node) && kept < 0) continue;
      const NodeId table_row = view.owns(node) ? node - view.first_node : view.num_local + kept;
      std::vector<float> here(6), there(6);
      loaded.features().gather({.data = &table_row, .size = 1}, here.data(), cuda::Stream(), pool);
      part.read_features(row, 1, there.data());
      ASSERT_EQ(here, there);
      if (!view.owns(node)) continue;
      const Count first = view.indptr[node - view.first_node];
      ASSERT_EQ(view.indptr[node - view.first_node + 1] - first, end - begin);
      for (Count e = 0; e < end - begin; ++e) ASSERT_EQ(view.indices[first + e], indices[at(begin + e)]);
    }
  }
  EXPECT_EQ(std::ssize(loaded.train_nodes()), 120);
  EXPECT_EQ(loaded.halo_rows() != nullptr, test::world().size() > 1);
  loaded.close(run.machine);
}

}  // namespace
}  // namespace strata::store
