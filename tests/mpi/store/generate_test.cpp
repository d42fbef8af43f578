// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "strata/batches/placed_graph.hpp"
#include "strata/util/error.hpp"
#include "support/generate_cases.hpp"
#include "support/run_setup.hpp"

namespace strata::store {
namespace {

using test::RunSetup;

MachineGraph generate(const RunSetup& run, const std::string& settings, const graph::ReadOptions& read,
                      const LoadOptions& load) {
  ThreadPool pool(1);
  return batches::generate_graph(graph::parse_synthetic(settings), read, run.machine, load, pool);
}

class GenerateKind : public testing::TestWithParam<const char*> {};

TEST_P(GenerateKind, GivesTheGeneratorsGraph) {
  const RunSetup run(0);
  for (const test::GenerateCase& generate_case : test::generate_cases(GetParam()))
    test::expect_generates(run.machine, generate_case);
}

INSTANTIATE_TEST_SUITE_P(Kinds, GenerateKind, testing::Values("sbm", "rmat", "lognormal", "grid"));

TEST(Generate, CasesHaveLongListsAndSelfLoops) {
  Count self_loops = 0, longest = 0;
  ThreadPool pool(1);
  for (const test::GenerateCase& generate_case : test::generate_cases("lognormal")) {
    const graph::Graph graph =
        graph::generate(graph::parse_synthetic(generate_case.settings), generate_case.read, pool);
    self_loops += graph.cleaning.self_loops_removed;
    const auto& indptr = graph.structure.indptr;
    for (std::size_t v = 0; v + 1 < indptr.size(); ++v)
      longest = std::max(longest, indptr[v + 1] - indptr[v]);
  }
  EXPECT_GT(self_loops, 0);
  EXPECT_GT(longest, 64);
}

TEST(Generate, RefusesADirectionThatTheKindCannotHave) {
  const RunSetup run(0);
  using Direction = graph::ReadOptions::Direction;
  EXPECT_THROW(generate(run, "kind=lognormal", {.direction = Direction::undirected}, {}), InputError);
  EXPECT_THROW(generate(run, "kind=grid", {.direction = Direction::directed}, {}), InputError);
}

TEST(Generate, RefusesEdgeIdsThatThereAreNot) {
  const RunSetup run(0);
  EXPECT_THROW(generate(run, "kind=lognormal,nodes=100", {}, {.edge_ids = true}), InputError);
}

TEST(Generate, RefusesWhatDoesNotFitBeforeItBegins) {
  const RunSetup run(0);
  try {
    generate(run, "kind=lognormal,nodes=1000000000000,edges=0", {}, {});
    FAIL() << "accepted";
  } catch (const OutOfMemory& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("1,000,000,000,000 nodes: wanted"));
  }
}

}  // namespace
}  // namespace strata::store
