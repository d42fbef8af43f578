// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "strata/batches/placed_graph.hpp"
#include "support/machine_graph_cases.hpp"

namespace strata::store {
namespace {

using test::DatasetOptions;
using test::expect_loads;
using test::Parts;
using test::RunSetup;

TEST(Load, ReadsPartsOnOneMachine) {
  std::uint64_t seed = 10;
  for (const int parts : {1, 3, 5}) {
    expect_loads({parts, 0, {.seed = ++seed}, {.edge_ids = true, .edge_weights = true, .in_degrees = true}});
  }
}

TEST(Load, ReadsPartsOnVirtualMachines) {
  std::uint64_t seed = 20;
  for (const int parts : {3, 5}) {
    expect_loads({parts, 1, {.seed = ++seed}, {.edge_ids = true, .in_degrees = true}});
    // So few nodes that some have several loops.
    for (const plan::Replication replication : {plan::Replication::off, plan::Replication::on})
      expect_loads({parts,
                    1,
                    {.num_nodes = 200, .num_edges = 20000, .seed = ++seed},
                    {.in_degrees = true, .degrees_of_loops = false, .replication = replication}});
  }
}

TEST(Load, ReadsTheClustersOfItsTrainingNodes) {
  std::uint64_t seed = 30;
  for (const int ranks_per_machine : {0, 1})
    for (const int parts : {3, 5})
      expect_loads({parts, ranks_per_machine, {.num_clusters = 4, .seed = ++seed}, {}});
}

/// Shares of several chunks and tasks, that begin and end within parts.
TEST(Load, ReadsPartsLongerThanAChunk) {
  const DatasetOptions dataset{.num_nodes = 60'000, .num_edges = 1'300'000, .feature_cols = 33, .seed = 23};
  for (const int ranks_per_machine : {0, 1}) {
    expect_loads(
        {3, ranks_per_machine, dataset, {.edge_ids = true, .edge_weights = true, .in_degrees = true}});
  }
}

TEST(Load, LeavesOutWhatIsNotAskedFor) { expect_loads({3, 0, {.seed = 31}, {}}); }

TEST(Load, NormalizesRows) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    expect_loads({3, 0, {.feature_dtype = dtype, .seed = 32}, {.row_normalize = true}});
  }
}

TEST(Load, CompressesFeatures) {
  std::uint64_t seed = 330;
  for (const plan::FeatureFormat format : {plan::FeatureFormat::i8, plan::FeatureFormat::i4})
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
      for (const int ranks_per_machine : {0, 1})
        expect_loads({3,
                      ranks_per_machine,
                      {.feature_cols = 33, .feature_dtype = dtype, .seed = ++seed},
                      {.feature_format = format}});
}

TEST(Load, ReadsFeaturesLater) {
  LoadOptions late{.row_normalize = true, .late_features = true};
  expect_loads({3, 0, {.num_nodes = 3000, .seed = 35}, late});
  late.halo_bytes = 20000;
  expect_loads({4, 1, {.feature_dtype = DType::bf16, .seed = 36}, late});
}

TEST(Load, ReadsHalfFeaturesAsTheyAre) {
  expect_loads({4, 0, {.feature_cols = 33, .feature_dtype = DType::f16, .seed = 33}, {}});
  expect_loads({4, 0, {.feature_cols = 33, .feature_dtype = DType::bf16, .seed = 34}, {}});
}

TEST(Load, NeedsNoFeaturesLabelsOrEdges) {
  expect_loads(
      {3, 0, {.num_edges = 0, .feature_cols = 0, .with_labels = false, .seed = 35}, {.in_degrees = true}});
}

TEST(Load, PlansInRowsAndBytes) {
  const RunSetup run(0);
  const Parts parts({.num_nodes = 100, .feature_cols = 7, .seed = 36}, 2);
  MachineGraph loaded = batches::load_parts(parts.directory(), run.ranks(), {});
  const auto& plan = loaded.plan();
  const auto features = std::ranges::find(plan, "features", &plan::PlanRow::tensor);
  ASSERT_NE(features, plan.end());
  EXPECT_EQ(features->stratum, "host");
  EXPECT_EQ(features->rows, 100);
  EXPECT_EQ(features->bytes, 100 * 7 * 4);
  loaded.close(run.machine);
}

TEST(Load, GivesSetsOfClasses) {
  for (const int ranks_per_machine : {0, 1})
    expect_loads({.num_parts = 3,
                  .ranks_per_machine = ranks_per_machine,
                  .dataset = {.num_classes = 40, .label_sets = true, .seed = 44},
                  .options = {}});
}

// Blocks of the files begin anywhere within the shares of the ranks and the tasks of their threads.
TEST(Load, ReadsPartsOfManyBlocks) {
  const test::DatasetOptions dataset{
      .num_nodes = 40000, .num_edges = 1'200'000, .feature_cols = 60, .seed = 95};
  const LoadOptions all{.edge_ids = true, .edge_weights = true, .in_degrees = true};
  expect_loads({3, 0, dataset, all});
  if (test::world().size() > 3) return;
  LoadOptions halo = all;
  halo.halo_bytes = 4'000'000;
  expect_loads({3, 1, dataset, halo});
}

}  // namespace
}  // namespace strata::store
