// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "strata/batches/placed_graph.hpp"
#include "strata/util/error.hpp"
#include "support/machine_graph_cases.hpp"

namespace strata::store {
namespace {

using test::DatasetOptions;
using test::expect_is;
using test::ids_of;
using test::RunSetup;
using testing::HasSubstr;

TEST(FromGraph, TakesAGraphInItsOwnOrder) {
  std::uint64_t seed = 50;
  for (const LoadOptions& options :
       {LoadOptions{.edge_ids = true, .edge_weights = true, .in_degrees = true},
        LoadOptions{.in_degrees = true, .degrees_of_loops = false}, LoadOptions{.row_normalize = true}}) {
    const RunSetup run(0);
    const DatasetOptions dataset{.num_nodes = 3000, .num_edges = 20000, .feature_cols = 11, .seed = ++seed};
    const auto expected = test::random_dataset(dataset);
    auto given = run.machine.rank() == 0 ? test::random_dataset(dataset) : nullptr;
    MachineGraph loaded = batches::take_graph(std::move(given), run.machine, options);
    expect_is(loaded, *expected, options);
    EXPECT_EQ(loaded.manifest().name, "random");
    EXPECT_EQ(loaded.manifest().num_classes, 5);
    EXPECT_EQ(loaded.manifest().num_edges, 20000);
    EXPECT_THAT(loaded.machine_offsets(), testing::ElementsAre(0, 3000));
    EXPECT_THAT(ids_of(loaded.host_view().original_ids), testing::Each(testing::Ge(0)));
    EXPECT_EQ(loaded.host_view().original_ids[2999], 2999);
    loaded.close(run.machine);
  }
}

TEST(FromGraph, LeavesATableThatOthersHoldAsItIs) {
  const RunSetup run(0);
  const DatasetOptions dataset{.num_nodes = 3000, .feature_cols = 100, .seed = 60};
  auto given = run.machine.rank() == 0 ? test::random_dataset(dataset) : nullptr;
  const graph::FeatureTable table = given ? given->features : graph::FeatureTable();
  const std::vector<float> before = given ? test::features_as_floats(*given) : std::vector<float>();
  MachineGraph loaded = batches::take_graph(std::move(given), run.machine, {.row_normalize = true});
  if (run.machine.rank() == 0) {
    EXPECT_TRUE(
        std::ranges::equal(before, std::span(reinterpret_cast<const float*>(table.data), before.size())));
  }
  loaded.close(run.machine);
}

TEST(FromGraph, NamesTheNodeOfABadFeature) {
  const RunSetup run(0);
  auto given = run.machine.rank() == 0 ? test::random_dataset({.seed = 61}) : nullptr;
  if (given)
    const_cast<float*>(reinterpret_cast<const float*>(given->features.data))[7 * 123] = std::nanf("");
  try {
    batches::take_graph(std::move(given), run.machine, {});
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("graph \"random\": node 123: feature 0 is NaN"));
  }
}

TEST(FromGraph, WantsTheGraphOnTheFirstRankAlone) {
  const RunSetup run(0);
  EXPECT_ANY_THROW(batches::take_graph(nullptr, run.machine, {}));
}

}  // namespace
}  // namespace strata::store
