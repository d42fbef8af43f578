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
  npy("edge_index", npy_bytes<std::int64_t>("<i8", "(2, 1)", {0, std::numeric_limits<std::int64_t>::max()}));
  refuse({"edge_index.npy: there is node 9223372036854775807"});
  npy("edge_index", npy_bytes<std::int64_t>("<i8", "(2, 4)", {0, 2, 1, 3, 1, 1, 2, 0}));
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

TEST_F(NodeFilesTest, HoldTargetsOfRegression) {
  const std::string edges = "csv:" + write("edges.csv", "0,1\n1,2\n");
  const auto read = [&](const std::string& file) {
    return read_graph(edges, {.direction = Direction::directed},
                      {.labels = file, .label_kind = LabelKind::targets, .train = write("t.csv", "0\n2\n")});
  };
  const auto word = [](float value) { return std::bit_cast<std::int32_t>(value); };
  const Graph graph = read(write("y.csv", "id,a,b\n2,-1,7.5\n0,3,\n"));
  EXPECT_EQ(graph.target_cols, 2);
  EXPECT_EQ(graph.num_classes, 0);
  EXPECT_EQ(graph.labels, (std::vector<std::int32_t>{word(3), kMissingTarget, kMissingTarget, kMissingTarget,
                                                     word(-1), word(7.5)}));
  EXPECT_EQ(target_scales(graph), (std::vector<TargetScale>{{.mean = 1, .deviation = 2}, {.mean = 7.5}}));
  EXPECT_EQ(read(write("y.npy", npy_bytes<std::int64_t>("<i8", "(3,)", {5, -2, 0}))).labels,
            (std::vector<std::int32_t>{word(5), word(-2), word(0)}));
  expect_error(
      [&] {
        read(write("y.npy", npy_bytes<double>("<f8", "(3,)", {5, 1e39, 0})));
      },
      {"y.npy: the target 1e+39 in row 1 does not fit into an f32"});
  expect_error(
      [&] {
        read(write("y.npy", npy_bytes<double>("<f8", "(3,)", {5, 0, std::nan("")})));
      },
      {"training node 2 has no label"});
}

TEST_F(NodeFilesTest, AreRefusedIfTheyDoNotFit) {
  const std::string edges = "csv:" + write("edges.csv", "0,1\n1,7\n");
  const std::string x = write("x.npy", npy_bytes<float>("<f4", "(2, 1)", {0, 1}));
  expect_error([&] { read_graph(edges, {}, {.features = x}); },
               {"x.npy: 2 rows, but ", "edges.csv has node 7"});
  expect_error([&] { read_graph(edges + ",nodes=9", {}, {.features = x}); },
               {"x.npy: 2 rows of features for 9 nodes"});
  expect_error([&] { read_graph(edges + ",nodes=9", {}, {.labels = x}); }, {"x.npy: 2 labels for 9 nodes"});
  expect_error([&] { read_graph(edges, {}, {.train = write("t.csv", "9\n")}); },
               {"split 'train' holds node 9"});
  expect_error([&] { read_graph(edges, {}, {.train = "t.pt"}); }, {"t.pt: neither .npy nor a table"});
  expect_error([&] { read_graph(edges, {}, {.train = folder_ / "none.npy"}); }, {"none.npy: no such file"});
}

/// Features and labels as text for the edges 0 -> 1 -> 2 -> 3.
class NodeTables : public NodeFilesTest {
 protected:
  Graph read(const NodeFiles& files, const std::string& keys = "") const {
    return read_graph("csv:" + write("edges.csv", "0,1\n1,2\n2,3\n") + keys,
                      {.direction = Direction::directed}, files);
  }
  std::vector<float> features(const std::string& text) const {
    const Graph graph = read({.features = write("x.csv", text)});
    const auto* const rows = reinterpret_cast<const float*>(graph.features.data);
    return {rows, rows + graph.features.rows * graph.features.cols};
  }
  std::vector<std::int32_t> labels(const std::string& text) const {
    return read({.labels = write("y.csv", text)}).labels;
  }
  void refuse_labels(const std::string& text, const std::vector<std::string>& parts) const {
    expect_error([&] { labels(text); }, parts);
  }
  void refuse_features(const std::string& text, const std::vector<std::string>& parts) const {
    expect_error([&] { features(text); }, parts);
  }
};

using Labels = std::vector<std::int32_t>;

TEST_F(NodeTables, MayLackLabelsInAnyRow) {
  for (const char* const word : {"NA", "nan", "NULL", "\"\"", "None", "?", ""}) {
    EXPECT_EQ(labels(word + std::string("\n1\n0\n1\n")), (Labels{-1, 1, 0, 1})) << word;
    EXPECT_EQ(labels("1\n" + std::string(word) + "\n0\n1\n"), (Labels{1, -1, 0, 1})) << word;
    EXPECT_EQ(labels("1\n1\n0\n" + std::string(word) + "\n"), (Labels{1, 1, 0, -1})) << word;
    EXPECT_EQ(labels("class\n1\n1\n0\n" + std::string(word) + "\n"), (Labels{1, 1, 0, -1})) << word;
  }
  EXPECT_EQ(labels("1\n1\n0\n1\n\n \n"), (Labels{1, 1, 0, 1}));
  EXPECT_EQ(labels("1\r1\r0\r1\r"), (Labels{1, 1, 0, 1}));
  EXPECT_EQ(labels("\"y\"\n\"1\"\n\" 1\"\n\"0\"\n\"1\"\n\"2\""), (Labels{1, 1, 0, 1, 2}));
  refuse_labels("1\n1\n0\n", {"y.csv: 3 rows, but ", "edges.csv has node 3"});
  refuse_labels("label\n1\n1\n0\n", {"y.csv: 3 rows, but "});
  expect_error([&] { read({.labels = write("y.csv", "1\n1\n0\n1\n1\n")}, ",nodes=4"); },
               {"y.csv:5: a further line"});
  expect_error([&] { read({.labels = write("y.csv", "y\n1\n1\n0\n")}, ",nodes=4"); },
               {"y.csv: 3 lines behind the names of columns, but"});
}

TEST_F(NodeTables, GiveRowsToTheNodesThatTheirIdsName) {
  for (const char* const text :
       {"node,label\n2,7\n0,3\n3,1\n1,4\n", "LABEL;Node_ID;x\n7;2;0\n3;0;0\n1;3;0\n4;1;0\n",
        "id kind\n2 7\n0 3\n3 1\n1 4\n", "# id kind\n2 7\n0 3\n3 1\n1 4\n", ",y\n2,7\n0,3\n3,1\n1,4\n",
        ",0\n2,7\n0,3\n3,1\n1,4\n", "\"id\",\"title\",\"y\"\r\"2\",\"a, \"\"b\"\"\",7\r0,,3\r3,c,1\r1,d,4\r"})
    EXPECT_EQ(labels(text), (Labels{3, 4, 7, 1})) << text;
  EXPECT_EQ(labels("id,label\n5,2\n0,1\n"), (Labels{1, -1, -1, -1, -1, 2}));
  EXPECT_EQ(labels("id,a,b\n3,1,0\n1,0,1\n0,1,1\n2,0,0\n"), (Labels{3, 2, 0, 1}));  // sets
  refuse_labels("id,label\n0,1\n1,1\n0,1\n2,0\n3,0\n",
                {"y.csv: the node of row 2, number 0, has a row before"});
  refuse_labels("id,label\n0,1\n-1,1\n", {"y.csv:3: id -1"});
  refuse_labels("id,page_type\n0,shop\n1,school\n2,shop\n3,shop\n",
                {"y.csv:2: column 2: 'shop' is not a number"});
  refuse_labels("0 3\n1 5\n2 3\n3 4\n", {"neither 0 nor 1", "id,label"});
  EXPECT_EQ(features("id,a,b\n3,30,31\n0,0,1\n2,20,21\n1,10,11\n"),
            (std::vector<float>{0, 1, 10, 11, 20, 21, 30, 31}));
  EXPECT_EQ(features(",0,1\n3,30,31\n0,0,1\n2,20,21\n1,10,11\n"),
            (std::vector<float>{0, 1, 10, 11, 20, 21, 30, 31}));
  refuse_features("id,a\n0,1\n1,2\n3,4\n", {"x.csv: rows for 3 of 4 nodes; the first without one is node 2"});
  refuse_features("id,a\n1,1\n2,2\n3,4\n4,4\n",
                  {"x.csv: rows for 4 of 5 nodes; the first without one is node 0"});
  refuse_features("id,a\n0,1\n1,2\n3,4\n3,5\n", {"number 3, has a row before"});
}

TEST_F(NodeTables, KeepWhatIsToBeLearnedOutOfFeatures) {
  EXPECT_EQ(features("a,train_mask,label,name,big,split\n1,1,9,ann,True,0\n2,1,9,bob,False,0\n3,0,9,cid,True,"
                     "0\n4,0,9,,True,0\n"),
            (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(features("\"a\"\t\"b\"\n\"1\"\t2\n3\t\"+4\"\n5\t6\n7\t8\n"),
            (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}));
  refuse_features("a,b\n1,2\n3\n5,6\n7,8\n", {"x.csv:3: 1 column, but 2 are expected"});
  refuse_features("a,b\n1,2\n3,4,5\n5,6\n7,8\n", {"x.csv:3: more than 2 columns"});
  refuse_features("id,name\n1,a\n", {"x.csv: no column of it holds features"});
}

TEST_F(NodeTables, WarnOfNamesOnce) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  labels("kind\n1\n1\n0\n1\n");
  const std::string log = testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr();
  const std::size_t first = log.find("taken for names of columns, not read: kind");
  EXPECT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find("taken for names", first + 1), std::string::npos) << log;
}

TEST_F(NodeTables, TellHowManyNodesArraysOfEdgesHave) {
  write("npy/edge_index.npy", npy_bytes<std::int64_t>("<i8", "(2, 2)", {0, 1, 1, 4}));
  const std::string edges = "npy:" + (folder_ / "npy").string();
  EXPECT_EQ(read_graph(edges, {}, {.labels = write("y.csv", "1\n0\n1\n0\n1\n1\n")}).num_nodes(), 6);
  EXPECT_EQ(read_graph(edges, {}, {.labels = write("y.csv", "id,y\n1,0\n2,1\n")}).num_nodes(), 5);
  expect_error([&] { read_graph(edges, {}, {.labels = write("y.csv", "1\n0\n1\n0\n")}); },
               {"y.csv: 4 rows, but ", "npy has node 4"});
  expect_error([&] { read_graph(edges, {}, {.labels = write("y.csv", "id,y\n9223372036854775807,0\n")}); },
               {"y.csv: there is node 9223372036854775807"});
}

TEST_F(NodeTables, NameNodesAsTheEdgesDo) {
  const std::string edges = "csv:" + write("named.csv", "ann,bob\nbob,\"c,d\"\n") + ",ids=string";
  const NodeFiles files{.features = write("x.csv", "id,f\n\"c,d\",3\nbob,2\nann,1\n"),
                        .labels = write("y.csv", "node,label\nbob,1\n"),
                        .train = write("train.csv", "node\nbob\n")};
  const Graph graph = read_graph(edges, {}, files);
  EXPECT_EQ(graph.labels, (Labels{-1, 1, -1}));
  EXPECT_EQ(graph.splits.train, (std::vector<NodeId>{1}));
  EXPECT_EQ(reinterpret_cast<const float*>(graph.features.data)[2], 3);
  expect_error([&] { read_graph(edges, {}, {.labels = write("y.csv", "id,label\neve,1\n")}); },
               {"y.csv:2: no edge has the node 'eve'"});
  const std::string sparse = "csv:" + write("sparse.csv", "70,-5\n-5,9\n") + ",ids=sparse";
  EXPECT_EQ(read_graph(sparse, {}, {.labels = write("y.csv", "label,id\n1,9\n0,70\n2,-5\n")}).labels,
            (Labels{2, 1, 0}));
}

TEST_F(NodeTables, OfSplitsMayHaveOtherColumns) {
  EXPECT_EQ(read({.train = write("t.csv", ",node\n0,3\n1,\"1\"\n")}).splits.train,
            (std::vector<NodeId>{1, 3}));
  EXPECT_EQ(read({.train = write("t.txt", "3\r1\r")}).splits.train, (std::vector<NodeId>{1, 3}));
  expect_error([&] { read({.train = write("t.csv", "a,b\n0,3\n")}); },
               {"t.csv:2: 2 columns, but 1 are expected"});
  expect_error([&] { read({.train = write("t.csv", "1\nNA\n")}); },
               {"t.csv:2: column 1: 'NA' is not an integer"});
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
