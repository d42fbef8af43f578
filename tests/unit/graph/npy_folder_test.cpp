// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "strata/graph/npy.hpp"
#include "strata/graph/read_graph.hpp"
#include "support/dataset_files.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace strata::graph {
namespace {

using test::expect_error;
using test::npy_bytes;
using test::write_text;
using test::ZipWriter;
using Direction = ReadOptions::Direction;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// 0->1, 2->1, 1->2, 3->0 with features, labels and splits.
class NpyFolder : public testing::Test {
 protected:
  NpyFolder() {
    npy("edge_index", npy_bytes<std::int64_t>("<i8", "(2, 4)", {0, 2, 1, 3, 1, 1, 2, 0}));
    npy("x", npy_bytes<float>("<f4", "(4, 2)", {1, 2, 3, 4, 5, 6, 7, 8}));
    npy("y", npy_bytes<std::int64_t>("<i8", "(4,)", {1, 0, 2, -1}));
    npy("train", npy_bytes<std::int64_t>("<i8", "(2,)", {2, 0}));
    npy("valid", npy_bytes<std::uint8_t>("|b1", "(4,)", {0, 1, 0, 0}));
    npy("test", npy_bytes<std::int32_t>("<i4", "(1,)", {3}));
  }
  void npy(const std::string& name, const std::string& bytes) {
    write_text(folder_ / (name + ".npy"), bytes);
  }
  void remove(const std::string& name) { std::filesystem::remove(folder_ / name); }
  std::string spec() const { return "npy:" + folder_.path().string(); }
  Graph read(ReadOptions options = {}) const { return read_graph(spec(), options); }
  void refuse(const std::vector<std::string>& parts) const {
    expect_error([&] { read(); }, parts);
  }
  void write_lists(const std::vector<std::int64_t>& indptr, const std::vector<std::int32_t>& indices) {
    remove("edge_index.npy");
    npy("indptr", npy_bytes("<i8", "(" + std::to_string(indptr.size()) + ",)", indptr));
    npy("indices", npy_bytes("<i4", "(" + std::to_string(indices.size()) + ",)", indices));
  }

  test::TemporaryFolder folder_;
};

TEST_F(NpyFolder, ReadsAnArrayPerFile) {
  const Graph graph = read();
  EXPECT_EQ(graph.structure.indptr, (std::vector<Count>{0, 1, 3, 4, 4}));
  EXPECT_EQ(graph.structure.indices, (std::vector<NodeId>{3, 0, 2, 1}));
  EXPECT_FALSE(graph.undirected);
  EXPECT_EQ(graph.features.cols, 2);
  EXPECT_EQ(graph.labels, (std::vector<std::int32_t>{1, 0, 2, -1}));
  EXPECT_EQ(graph.num_classes, 3);
  EXPECT_EQ(graph.splits.train, (std::vector<NodeId>{0, 2}));
  EXPECT_EQ(graph.splits.valid, std::vector<NodeId>{1});
  EXPECT_EQ(graph.splits.test, std::vector<NodeId>{3});
  EXPECT_EQ(graph.name, folder_.path().filename());
}

TEST_F(NpyFolder, AddsTheOtherDirectionIfAsked) {
  const Graph graph = read({.direction = Direction::undirected});
  EXPECT_TRUE(graph.undirected);
  EXPECT_EQ(graph.structure.indptr, (std::vector<Count>{0, 2, 4, 5, 6}));
}

TEST_F(NpyFolder, GivesEdgesTheirWeights) {
  npy("edge_weight", npy_bytes<double>("<f8", "(4,)", {0.5, 1.5, 2, 0}));
  EXPECT_EQ(read().structure.weights, (std::vector<float>{0, 0.5, 1.5, 2}));
  npy("edge_weight", npy_bytes<float>("<f4", "(3,)", {1, 1, 1}));
  refuse({"edge_weight.npy", "3 weights for 4 edges"});
  npy("edge_weight", npy_bytes<float>("<f4", "(4,)", {1, kNan, 1, 1}));
  refuse({"edge_weight.npy: edge 1 has the weight nan"});
}

TEST_F(NpyFolder, GivesNodesTheirWeights) {
  EXPECT_EQ(read().node_weights.kinds, 0);
  npy("node_weight", npy_bytes<std::int64_t>("<i8", "(4,)", {3, 0, 2147483647, 1}));
  EXPECT_EQ(read().node_weights.values, (std::vector<std::int32_t>{3, 0, 2147483647, 1}));
  npy("node_weight", npy_bytes<std::uint8_t>("|u1", "(4, 2)", {1, 2, 3, 4, 5, 6, 7, 255}));
  EXPECT_EQ(read().node_weights.kinds, 2);
  EXPECT_EQ(read().node_weights.values, (std::vector<std::int32_t>{1, 2, 3, 4, 5, 6, 7, 255}));
  npy("node_weight", npy_bytes<std::int64_t>("<i8", "(4,)", {3, 0, 2147483648, 1}));
  refuse({"node_weight.npy", "node 2 has the weight 2147483648", "from 0 to 2147483647"});
  npy("node_weight", npy_bytes<std::int64_t>("<i8", "(4,)", {3, -1, 0, 1}));
  refuse({"node_weight.npy", "node 1 has the weight -1"});
  npy("node_weight", npy_bytes<std::uint64_t>("<u8", "(4,)", {3, 1, 0, ~std::uint64_t{0}}));
  refuse({"node_weight.npy", "node 3 has the weight"});
  npy("node_weight", npy_bytes<float>("<f4", "(4,)", {1, 2, 3, 4}));
  refuse({"node_weight.npy", "weights of nodes of type", "int64"});
  npy("node_weight", npy_bytes<std::int64_t>("<i8", "(3,)", {3, 1, 0}));
  refuse({"says 4 nodes, node_weight.npy says 3"});
  npy("node_weight", npy_bytes<std::int64_t>("<i8", "(4, 1, 1)", {3, 1, 0, 5}));
  refuse({"node_weight.npy", "of shape (4, 1, 1)", "at most 16 kinds"});
}

TEST_F(NpyFolder, CountsNodesByTheirRowsOrTheLargestId) {
  for (const char* const name : {"x.npy", "y.npy", "train.npy", "valid.npy", "test.npy"}) remove(name);
  EXPECT_EQ(read().num_nodes(), 4);
  EXPECT_EQ(read_graph(spec() + ",nodes=9").num_nodes(), 9);
  npy("y", npy_bytes<float>("<f4", "(6,)", {0, 1, kNan, kNan, 0, 1}));
  EXPECT_EQ(read().num_nodes(), 6);
  expect_error([&] { read_graph(spec() + ",nodes=9"); }, {"nodes= says 9 nodes, y.npy says 6"});
  npy("x", npy_bytes<float>("<f4", "(5, 1)", {1, 2, 3, 4, 5}));
  refuse({"x.npy says 5 nodes, y.npy says 6"});
  remove("y.npy");
  npy("x", npy_bytes<float>("<f4", "(3, 1)", {1, 2, 3}));
  refuse({"edge_index.npy: edge 3 goes from 3 to 0", "[0, 3)"});
}

TEST_F(NpyFolder, ReadsListsOfInNeighbors) {
  write_lists({0, 1, 3, 4, 4}, {3, 0, 2, 1});
  EXPECT_EQ(read().structure.indices, (std::vector<NodeId>{3, 0, 2, 1}));
  npy("edge_weight", npy_bytes<float>("<f4", "(4,)", {1, 2, 3, 4}));
  EXPECT_EQ(read().structure.weights, (std::vector<float>{1, 2, 3, 4}));
  write_lists({0, 1, 3, 2, 4}, {3, 0, 2, 1});
  refuse({"indptr.npy", "falls from 3 to 2 at position 3"});
  write_lists({1, 1, 3, 4, 4}, {3, 0, 2, 1});
  refuse({"indptr.npy", "does not begin with 0"});
  write_lists({0, 1, 3, 4, 5}, {3, 0, 2, 1});
  refuse({"indptr.npy", "ends with 5, but there are 4 indices"});
  write_lists({0, 1, 3, 4, 4}, {3, 0, 2, 7});
  refuse({"indices.npy: edge 3 goes from 7 to 2"});
  write_lists({0, 4}, {0, 0, 0, 0});
  refuse({"the edges' file says 1 nodes, x.npy says 4"});
}

TEST_F(NpyFolder, RefusesEdgesOfOtherShapesAndTypes) {
  npy("edge_index", npy_bytes<std::int64_t>("<i8", "(4, 2)", {0, 1, 2, 1, 1, 2, 3, 0}));
  refuse({"edge_index.npy: edges of shape (4, 2)", "(2, E)", "edges.T"});
  npy("edge_index", npy_bytes<std::int64_t>("<i8", "(8,)", {0, 1, 2, 1, 1, 2, 3, 0}));
  refuse({"edge_index.npy: edges of shape (8,)"});
  npy("edge_index", npy_bytes<float>("<f4", "(2, 2)", {0, 1, 2, 1}));
  refuse({"edge_index.npy: edges of type 'f4'", "int64"});
  npy("edge_index", npy_bytes<std::int64_t>("<i8", "(2, 1)", {0, -1}));
  refuse({"edge 0 goes from 0 to -1"});
  npy("edge_index", npy_bytes<std::int32_t>("<i4", "(2, 4)", {0, 2, 1, 3, 1, 1, 2, 0}));
  EXPECT_EQ(read().structure.num_edges(), 4);
  npy("edge_index", std::string("junk"));
  refuse({"edge_index.npy: not a npy file"});
  remove("edge_index.npy");
  refuse({"no edges", "edge_index.npy of shape (2, E)"});
  npy("edge_index", npy_bytes<std::int64_t>("<i8", "(2, 0)", {}));
  npy("indptr", npy_bytes<std::int64_t>("<i8", "(1,)", {0}));
  refuse({"edges in more than one file"});
}

TEST_F(NpyFolder, RefusesMasksThatAreNone) {
  npy("valid", npy_bytes<std::uint8_t>("|b1", "(3,)", {0, 1, 0}));
  refuse({"valid.npy: a mask of shape (3,) for 4 nodes"});
  npy("valid", npy_bytes<std::int64_t>("<i8", "(4,)", {0, 1, 0, 0}));
  refuse({"valid.npy: 4 integers that are all 0 or 1", "astype(bool)"});
  npy("valid", npy_bytes<std::int64_t>("<i8", "(1,)", {4}));
  refuse({"split 'valid' holds node 4", "[0, 4)"});
  npy("valid", npy_bytes<std::int64_t>("<i8", "(1,)", {0}));
  refuse({"splits 'train' and 'valid' overlap in 1 node"});
  npy("val", npy_bytes<std::int64_t>("<i8", "(1,)", {1}));
  refuse({"both valid.npy and val.npy"});
  remove("valid.npy");
  EXPECT_EQ(read().splits.valid, std::vector<NodeId>{1});
}

TEST_F(NpyFolder, RefusesArraysThatWouldBeIgnored) {
  remove("valid.npy");
  npy("val_mask", npy_bytes<std::uint8_t>("|b1", "(4,)", {0, 1, 0, 0}));
  refuse({"val_mask.npy: no array of this name is read", "Did you mean 'valid.npy'?"});
  remove("val_mask.npy");
  npy("edge_weights", npy_bytes<float>("<f4", "(4,)", {1, 1, 1, 1}));
  refuse({"Did you mean 'edge_weight.npy'?"});
  remove("edge_weights.npy");
  npy("positions", npy_bytes<float>("<f4", "(4,)", {1, 1, 1, 1}));  // a warning
  EXPECT_EQ(read().num_nodes(), 4);
}

TEST_F(NpyFolder, RefusesBadRows) {
  npy("x", npy_bytes<float>("<f4", "(4, 2)", {1, 2, 3, 4, 5, kNan, 7, 8}));
  refuse({"x.npy: feature 1 of node 2 is nan"});
  npy("x", npy_bytes<float>("<f4", "(4, 2)", {1, 2, 3, 4, 5, 6, 7, 8}));
  npy("y", npy_bytes<float>("<f4", "(4,)", {1, 0.5, 2, 0}));
  refuse({"y.npy: label 0.5 in row 1 is not a class"});
  npy("y", npy_bytes<std::int64_t>("<i8", "(4,)", {-1, 0, 2, 0}));
  refuse({"training node 0 has no label"});
}

class NodeFilesTest : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& bytes) const {
    write_text(folder_ / name, bytes);
    return (folder_ / name).string();
  }

  test::TemporaryFolder folder_;
};

TEST_F(NodeFilesTest, ReplaceWhatTheDatasetSays) {
  const std::string edges = "csv:" + write("edges.csv", "0,1\n1,2\n");
  const NodeFiles files{
      .features = write("x.npy", npy_bytes<float>("<f4", "(5, 2)", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9})),
      .labels = write("y.csv", "1\n0\nnan\n1\n0\n"),
      .train = write("train.npy", npy_bytes<std::uint8_t>("|b1", "(5,)", {1, 0, 0, 1, 0})),
      .valid = write("valid.csv", "4\n1\n")};
  const Graph graph = read_graph(edges, {.direction = Direction::directed}, files);
  EXPECT_EQ(graph.num_nodes(), 5);
  EXPECT_EQ(graph.features.cols, 2);
  EXPECT_EQ(graph.labels, (std::vector<std::int32_t>{1, 0, -1, 1, 0}));
  EXPECT_EQ(graph.num_classes, 2);
  EXPECT_EQ(graph.splits.train, (std::vector<NodeId>{0, 3}));
  EXPECT_EQ(graph.splits.valid, (std::vector<NodeId>{1, 4}));
}

TEST_F(NodeFilesTest, AreRefusedIfTheyDoNotFit) {
  const std::string edges = "csv:" + write("edges.csv", "0,1\n1,7\n");
  const std::string x = write("x.npy", npy_bytes<float>("<f4", "(2, 1)", {0, 1}));
  expect_error([&] { read_graph(edges, {}, {.features = x}); }, {"nodes=2, but there is node 7"});
  expect_error([&] { read_graph(edges + ",nodes=9", {}, {.features = x}); },
               {"x.npy: 2 rows of features for 9 nodes"});
  expect_error([&] { read_graph(edges + ",nodes=9", {}, {.labels = x}); }, {"x.npy: 2 labels for 9 nodes"});
  expect_error([&] { read_graph(edges, {}, {.train = write("t.csv", "9\n")}); },
               {"split 'train' holds node 9"});
  expect_error([&] { read_graph(edges, {}, {.train = "t.txt"}); }, {"t.txt: neither .npy nor .csv"});
  expect_error([&] { read_graph(edges, {}, {.train = folder_ / "none.npy"}); }, {"none.npy: no such file"});
}

class ScipyMatrix : public testing::Test {
 protected:
  struct Member {
    const char* name;
    std::string bytes;
  };
  void write(const std::vector<Member>& members) const {
    ZipWriter zip;
    for (const Member& member : members)
      zip.add({.name = std::string(member.name) + ".npy", .contents = member.bytes, .deflated = true});
    write_text(path_, zip.finish());
  }
  static std::string word(const std::string& text) {
    return npy_bytes("|S" + std::to_string(text.size()), "()", text.data(), text.size());
  }
  static std::string shape(std::int64_t rows, std::int64_t cols) {
    return npy_bytes<std::int64_t>("<i8", "(2,)", {rows, cols});
  }
  static std::string ids(const std::vector<std::int32_t>& ids) {
    return npy_bytes("<i4", "(" + std::to_string(ids.size()) + ",)", ids);
  }
  static std::string values(const std::vector<double>& values) {
    return npy_bytes("<f8", "(" + std::to_string(values.size()) + ",)", values);
  }
  Graph read() const { return read_graph("npy:" + path_.string()); }
  void refuse(const std::vector<std::string>& parts) const {
    expect_error([&] { read(); }, parts);
  }

  test::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "adjacency.npz";
};

// Row u, column v: an edge from u to v. 0->1, 0->2, 2->1.
TEST_F(ScipyMatrix, IsReadInThreeFormats) {
  const std::vector<std::vector<Member>> formats{{{"format", word("csr")},
                                                  {"shape", shape(3, 3)},
                                                  {"indptr", ids({0, 2, 2, 3})},
                                                  {"indices", ids({1, 2, 1})},
                                                  {"data", values({1, 2, 3})}},
                                                 {{"format", word("csc")},
                                                  {"shape", shape(3, 3)},
                                                  {"indptr", ids({0, 0, 2, 3})},
                                                  {"indices", ids({0, 2, 0})},
                                                  {"data", values({1, 3, 2})}},
                                                 {{"format", word("coo")},
                                                  {"shape", shape(3, 3)},
                                                  {"row", ids({2, 0, 0})},
                                                  {"col", ids({1, 2, 1})},
                                                  {"data", values({3, 2, 1})}}};
  for (const auto& members : formats) {
    write(members);
    const Graph graph = read();
    EXPECT_EQ(graph.structure.indptr, (std::vector<Count>{0, 0, 2, 3}));
    EXPECT_EQ(graph.structure.indices, (std::vector<NodeId>{0, 2, 0}));
    EXPECT_EQ(graph.structure.weights, (std::vector<float>{1, 3, 2}));
  }
  std::vector<Member> ones = formats[0];
  ones[4].bytes = values({1, 1, 1});
  write(ones);
  EXPECT_TRUE(read().structure.weights.empty());
  write_text(folder_ / "x.npy", npy_bytes<float>("<f4", "(3, 1)", {1, 2, 3}));
  EXPECT_EQ(read_graph("npy:" + folder_.path().string()).features.cols, 1);
}

TEST_F(ScipyMatrix, IsRefusedIfItIsNoAdjacency) {
  const Member csr{"format", word("csr")}, square{"shape", shape(2, 2)}, indptr{"indptr", ids({0, 1, 1})},
      indices{"indices", ids({1})}, data{"data", values({1})};
  write({csr, {"shape", shape(2, 3)}, indptr, indices, data});
  refuse({"not a square matrix"});
  write({{"format", word("bsr")}, square, indptr, indices, data});
  refuse({"a matrix in the format bsr", "tocsr()"});
  write({csr, square, indptr, indices, {"data", values({1, 2})}});
  refuse({"2 values for 1 entries"});
  write({csr, square, indptr, indices, {"data", values({-1})}});
  refuse({"edge 0 has the weight -1"});
  write({csr, square, {"indptr", ids({0, 1})}, indices, data});
  refuse({"indptr is of 1 rows, the matrix of 2"});
  write({csr, square, indptr, {"indices", ids({2})}, data});
  refuse({"edge 0 goes from 0 to 2"});
  write({square, indptr, indices, data});
  refuse({"not a sparse matrix of scipy", "save_npz"});
  write({{"format", ids({1})}, square, indptr, indices, data});
  refuse({"the format has the type i4"});
}

}  // namespace
}  // namespace strata::graph
