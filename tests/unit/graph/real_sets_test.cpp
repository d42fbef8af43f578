// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "strata/graph/read_graph.hpp"
#include "support/dataset_files.hpp"
#include "support/temporary_folder.hpp"

namespace strata::graph {
namespace {

struct Planetoid {
  const char* name;
  Count nodes, edges, features, classes, missing;
  std::size_t train, valid, test;
};

class PlanetoidSet : public testing::TestWithParam<Planetoid> {};

TEST_P(PlanetoidSet, IsReadWhole) {
  const Planetoid& set = GetParam();
  const auto folder = test::data_folder() / set.name;
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no " << folder << "; set STRATA_DATA";
  const Graph graph = read_graph("ogb:" + folder.string());
  EXPECT_EQ(graph.name, set.name);
  EXPECT_EQ(graph.num_nodes(), set.nodes);
  EXPECT_EQ(graph.structure.num_edges(), 2 * set.edges);
  EXPECT_EQ(graph.cleaning.edges_read, set.edges);
  EXPECT_EQ(graph.cleaning.reverse_added, set.edges);
  EXPECT_TRUE(graph.undirected);
  EXPECT_EQ(graph.features.cols, set.features);
  EXPECT_EQ(graph.num_classes, set.classes);
  EXPECT_EQ(std::count(graph.labels.begin(), graph.labels.end(), -1), set.missing);
  EXPECT_EQ(graph.splits.train.size(), set.train);
  EXPECT_EQ(graph.splits.valid.size(), set.valid);
  EXPECT_EQ(graph.splits.test.size(), set.test);
  std::vector<int> times(at(set.edges), 0);
  for (const EdgeId edge : graph.structure.edge_ids) ++times[at(edge)];
  EXPECT_TRUE(std::all_of(times.begin(), times.end(), [](int count) { return count == 2; }));
}

INSTANTIATE_TEST_SUITE_P(Sets, PlanetoidSet,
                         testing::Values(Planetoid{"cora", 2708, 5278, 1433, 7, 0, 140, 500, 1000},
                                         Planetoid{"citeseer", 3327, 4552, 3703, 6, 15, 120, 500, 1000}),
                         [](const auto& info) { return info.param.name; });

struct Converted {
  const char* name;
  const char* arguments;
  Count nodes, edges, features, classes;
};

class GraphboltSet : public testing::TestWithParam<Converted> {};

TEST_P(GraphboltSet, IsReadWhole) {
  const Converted& set = GetParam();
  const auto script = test::data_folder() / "to_graphbolt.py";
  if (!std::filesystem::exists(script)) GTEST_SKIP() << "no " << script << "; set STRATA_DATA";
  const test::TemporaryFolder folder;
  const auto python = std::filesystem::path(STRATA_PYTHON_ENV) / "bin/python";
  const std::string interpreter = std::filesystem::exists(python) ? python.string() : "python3";
  if (std::system(fmt::format("{} -c 'import numpy' 2>/dev/null", interpreter).c_str()) != 0)
    GTEST_SKIP() << interpreter << " has no numpy";
  const std::string command = fmt::format("{} -B {} {} {} {} >/dev/null", interpreter, script.string(),
                                          set.name, folder.path().string(), set.arguments);
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  const Graph graph = read_graph("graphbolt:" + folder.path().string());
  EXPECT_EQ(graph.num_nodes(), set.nodes);
  EXPECT_EQ(graph.structure.num_edges(), set.edges);
  EXPECT_TRUE(graph.undirected);
  EXPECT_EQ(graph.features.cols, set.features);
  EXPECT_EQ(graph.num_classes, set.classes);
  EXPECT_EQ(graph.cleaning.duplicates, 0);
  for (const NodeId node : graph.splits.test) ASSERT_GE(graph.labels[at(node)], 0);
}

INSTANTIATE_TEST_SUITE_P(Sets, GraphboltSet,
                         testing::Values(Converted{"tolokers", "", 11'758, 1'038'000, 10, 2},
                                         Converted{"minesweeper", "", 10'000, 78'804, 7, 2},
                                         Converted{"facebook100", "--schools Cornell5", 18'660, 1'581'554,
                                                   128, 6}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::graph
