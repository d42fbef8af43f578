// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "strata/batches/placed_graph.hpp"
#include "strata/graph/manifest_file.hpp"
#include "strata/util/error.hpp"
#include "support/machine_graph_cases.hpp"

namespace strata::store {
namespace {

using test::Parts;
using test::RunSetup;
using testing::HasSubstr;

std::string refusal_of(const std::filesystem::path& directory, int ranks_per_machine = 0,
                       const LoadOptions& options = {.in_degrees = true}) {
  const RunSetup run(ranks_per_machine);
  const comm::Communicator& world = test::world().communicator();
  try {
    world.together([&] { batches::load_parts(directory, run.ranks(), options); });
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted, or refused otherwise";
}

TEST(Load, RefusesFeaturesThatAreNotNumbers) {
  for (const int ranks_per_machine : {0, 1}) {
    const Parts parts({.num_nodes = 300, .seed = 40}, 3, [](graph::Graph& graph) {
      auto* values = const_cast<float*>(reinterpret_cast<const float*>(graph.features.data));
      values[250 * 7 + 3] = std::nanf("");
    });
    const std::string message = refusal_of(parts.directory(), ranks_per_machine);
    EXPECT_THAT(message, HasSubstr(parts.directory().string()));
    EXPECT_THAT(message, testing::ContainsRegex("row [0-9]+: feature 3 is NaN"));
  }
}

TEST(Load, RefusesLabelsOutOfRange) {
  const Parts parts({.seed = 41}, 2, [](graph::Graph& graph) { graph.labels[77] = 5; });
  EXPECT_THAT(refusal_of(parts.directory()), HasSubstr("has label 5, but classes are 0 to 4"));
}

TEST(Load, RefusesLabelsThatAreNoSets) {
  const Parts parts({.num_classes = 40, .label_sets = true, .seed = 43}, 2, [](graph::Graph& graph) {
    graph.labels[2 * 77 + 1] = 1 << 9;  // bit 41
  });
  EXPECT_THAT(refusal_of(parts.directory()), HasSubstr("is no set of 40 classes"));
}

TEST(Load, RefusesWhatIsNoPartitionDirectory) {
  EXPECT_THAT(refusal_of("/nonexistent"), HasSubstr("/nonexistent"));
}

TEST(Load, RefusesMoreMachinesThanParts) {
  if (test::world().size() == 1) GTEST_SKIP() << "needs two ranks";
  const Parts parts({.seed = 42}, 1);
  EXPECT_THAT(refusal_of(parts.directory(), 1), HasSubstr("machines"));
}

/// A directory with one part of three nodes and four edges that `damage` changed.
std::string refusal_of_damaged(const std::function<void(graph::PartData&)>& damage,
                               const LoadOptions& options = {.in_degrees = true}) {
  const std::filesystem::path directory = test::common_folder("damaged");
  if (test::world().rank() == 0) {
    graph::PartData data{.part = 0,
                         .indptr = {0, 1, 2, 4},
                         .indices = {1, 2, 0, 1},
                         .edge_ids = {0, 1, 2, 3},
                         .original_ids = {2, 0, 1},
                         .labels = {},
                         .train = {{1, 0}, {0, 1}},
                         .valid = {},
                         .test = {}};
    damage(data);
    graph::PartitionRecord record;
    record.manifest = {.name = "tiny",
                       .build_id = "1",
                       .book = graph::PartitionBook({0, 3}),
                       .num_edges = 4,
                       .has_edge_weights = !data.weights.empty(),
                       .num_train = 2};
    std::filesystem::create_directories(directory);
    record.parts = {graph::write_part(directory, record.manifest, data, {})};
    graph::write_manifest(directory, record);
  }
  test::world().communicator().barrier();
  std::string refusal = refusal_of(directory, 0, options);
  test::world().communicator().barrier();
  if (test::world().rank() == 0) std::filesystem::remove_all(directory);
  return refusal;
}

TEST(Load, RefusesDamagedStructure) {
  EXPECT_THAT(refusal_of_damaged([](auto& data) { data.indices[2] = 3; }),
              HasSubstr("indices[2] is 3, but nodes are 0 to 2"));
  EXPECT_THAT(refusal_of_damaged([](auto& data) { data.indices[1] = -1; }), HasSubstr("indices[1] is -1"));
  EXPECT_THAT(refusal_of_damaged([](auto& data) { data.indptr[1] = 3; }),
              HasSubstr("indptr gives row 1 -1 edges"));
  EXPECT_THAT(refusal_of_damaged([](auto& data) { data.indptr[0] = 1; }), HasSubstr("indptr"));
  EXPECT_THAT(refusal_of_damaged([](auto& data) { data.indptr[3] = 5; }), HasSubstr("indptr"));
  EXPECT_THAT(refusal_of_damaged([](auto& data) { data.original_ids[1] = 3; }),
              HasSubstr("row 1 has the original id 3"));
  EXPECT_THAT(refusal_of_damaged([](auto& data) {
                data.train.ranks = {1, 1};
              }),
              HasSubstr("training node 0 of 2"));
  EXPECT_THAT(refusal_of_damaged([](auto& data) { data.train.ranks = {0, 2}; }), HasSubstr("rank 2 of 2"));
  EXPECT_THAT(refusal_of_damaged([](auto& data) { data.indices[3] = (NodeId{1} << 32) + 1; }),
              HasSubstr("indices[3] is 4294967297"));
  EXPECT_THAT(refusal_of_damaged([](auto& data) {
                data.test = {{3}, {0}};
              }),
              HasSubstr("a split names row 3 of 3"));
  EXPECT_THAT(refusal_of_damaged([](auto& data) { data.train.rows[1] = -7; }),
              HasSubstr("a split names row -7 of 3"));
  EXPECT_THAT(refusal_of_damaged([](auto& data) { data.train.rows[1] = data.train.rows[0]; }),
              HasSubstr("or names it twice"));
}

TEST(Load, RefusesWeightsThatAreNotThere) {
  EXPECT_THAT(refusal_of_damaged([](auto&) {}, {.edge_weights = true}), HasSubstr("has no edge weights"));
  EXPECT_THAT(refusal_of_damaged(
                  [](auto& data) {
                    data.weights = {1, 0, -3, 1};
                  },
                  {.edge_weights = true}),
              HasSubstr("weight[2] is -3"));
}

}  // namespace
}  // namespace strata::store
