// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <vector>

#include "strata/graph/npy.hpp"
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

/// A set of HeCo as a folder of arrays: papers have one relation to each other type.
class HecoSet : public testing::Test {
 protected:
  /// Writes the edges of a table of a paper and another node per line.
  void write_edges(const std::filesystem::path& table, const std::string& type) const {
    std::vector<std::int64_t> papers, others;
    std::ifstream lines(table);
    for (std::int64_t paper = 0, other = 0; lines >> paper >> other;) {
      papers.push_back(paper);
      others.push_back(other);
    }
    const Count count = std::ssize(papers);
    papers.insert(papers.end(), others.begin(), others.end());
    const auto folder = folder_ / ("edges/paper__has__" + type);
    std::filesystem::create_directories(folder);
    write_npy(folder / "edge_index.npy", DType::i64, {2, count}, papers.data());
  }
  /// Writes the rows of a sparse matrix.
  void write_rows(const std::filesystem::path& matrix, const std::string& type) const {
    const NpzFile file(matrix);
    const NpyArray indptr = file.array("indptr"), indices = file.array("indices"),
                   shape = file.array("shape"), data = file.array("data");
    const Count rows = indptr.size() - 1, cols = shape.is('i', 8)
                                                     ? reinterpret_cast<const std::int64_t*>(shape.data)[1]
                                                     : reinterpret_cast<const std::int32_t*>(shape.data)[1];
    const auto* const first = reinterpret_cast<const std::int32_t*>(indptr.data);
    std::vector<float> values(at(rows * cols));
    for (Count row = 0; row < rows; ++row)
      for (Count i = first[row]; i < first[row + 1]; ++i)
        values[at(row * cols + reinterpret_cast<const std::int32_t*>(indices.data)[i])] =
            data.kind == 'f' ? static_cast<float>(reinterpret_cast<const double*>(data.data)[i])
                             : static_cast<float>(reinterpret_cast<const std::int64_t*>(data.data)[i]);
    write_npy(nodes(type) / "x.npy", DType::f32, {rows, cols}, values.data());
  }
  void copy(const std::filesystem::path& array, const std::string& type, const char* name) const {
    std::filesystem::copy_file(array, nodes(type) / name);
  }
  void write_count(const std::string& type, std::int64_t count) const {
    write_npy(nodes(type) / "num_nodes.npy", DType::i64, {1}, &count);
  }
  std::filesystem::path nodes(const std::string& type) const {
    const auto folder = folder_ / ("nodes/" + type);
    std::filesystem::create_directories(folder);
    return folder;
  }
  Graph read() const { return read_graph("npy:" + folder_.path().string() + ",reverse"); }

  test::TemporaryFolder folder_;
};

TEST_F(HecoSet, DblpIsReadWhole) {
  const auto set = test::data_folder() / "hetero" / "dblp";
  if (!std::filesystem::exists(set)) GTEST_SKIP() << "no " << set << "; set STRATA_DATA";
  write_rows(set / "a_feat.npz", "author");
  copy(set / "t_feat.npz", "term", "x.npy");  // an array, in spite of its name
  write_count("paper", 14'328);
  write_count("conference", 20);
  copy(set / "labels.npy", "author", "y.npy");
  copy(set / "train_20.npy", "author", "train.npy");
  copy(set / "val_20.npy", "author", "valid.npy");
  copy(set / "test_20.npy", "author", "test.npy");
  write_edges(set / "pa.txt", "author");
  write_edges(set / "pc.txt", "conference");
  write_edges(set / "pt.txt", "term");
  const Graph graph = read();
  EXPECT_EQ(graph.types.nodes, (std::vector<std::string>{"author", "conference", "paper", "term"}));
  EXPECT_EQ(graph.types.node_offsets, (std::vector<Count>{0, 4057, 4077, 18'405, 26'128}));
  EXPECT_EQ(graph.types.feature_cols, (std::vector<Count>{334, 0, 0, 50}));
  EXPECT_EQ(graph.structure.num_edges(), 2 * (19'645 + 14'328 + 85'810));
  EXPECT_EQ(graph.num_classes, 4);
  EXPECT_EQ(graph.splits.train.size(), 80u);
  EXPECT_EQ(graph.splits.test.size(), 1000u);
  EXPECT_LT(graph.splits.test.back(), 4057);
}

TEST_F(HecoSet, AcmIsReadWhole) {
  const auto set = test::data_folder() / "hetero" / "acm";
  if (!std::filesystem::exists(set)) GTEST_SKIP() << "no " << set << "; set STRATA_DATA";
  write_rows(set / "p_feat.npz", "paper");
  write_count("author", 7167);
  write_count("subject", 60);
  copy(set / "labels.npy", "paper", "y.npy");
  copy(set / "train_20.npy", "paper", "train.npy");
  copy(set / "val_20.npy", "paper", "valid.npy");
  copy(set / "test_20.npy", "paper", "test.npy");
  write_edges(set / "pa.txt", "author");
  write_edges(set / "ps.txt", "subject");
  const Graph graph = read();
  EXPECT_EQ(graph.types.node_offsets, (std::vector<Count>{0, 7167, 11'186, 11'246}));
  EXPECT_EQ(graph.types.feature_cols, (std::vector<Count>{0, 1902, 0}));
  EXPECT_EQ(graph.structure.num_edges(), 2 * (13'407 + 4019));
  EXPECT_EQ(graph.num_classes, 3);
  EXPECT_EQ(graph.splits.train.size(), 60u);
  EXPECT_GE(graph.splits.train.front(), 7167);
}

}  // namespace
}  // namespace strata::graph
