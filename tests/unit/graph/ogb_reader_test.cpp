// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "strata/graph/read_graph.hpp"
#include "support/dataset_files.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace strata::graph {
namespace {

using test::expect_error;
using test::npy_bytes;
using test::write_gzip;
using test::write_text;

std::vector<float> floats_of(const FeatureTable& table) {
  EXPECT_EQ(table.dtype, DType::f32);
  std::vector<float> values(at(table.rows * table.cols));
  std::memcpy(values.data(), table.data, values.size() * sizeof(float));
  return values;
}

/// A path of four nodes, 0-1-2-3, with a missing label.
class Ogb : public testing::Test {
 protected:
  Ogb() {
    gz("raw/num-node-list", "4\n");
    gz("raw/num-edge-list", "3\n");
    gz("raw/edge", "0,1\n1,2\n3,2\n");
    gz("raw/node-feat", "1,0.5\n-2,0\n0,0\n1e-3,4\n");
    gz("raw/node-label", "0\n2\nnan\n1\n");
    gz("split/public/train", "1\n0\n");
    gz("split/public/valid", "3\n");
    gz("split/public/test", "2\n");
  }
  void gz(const std::string& name, const std::string& text) { write_gzip(root() / (name + ".csv.gz"), text); }
  void remove(const std::string& name) { std::filesystem::remove_all(root() / name); }
  std::filesystem::path root() const { return folder_ / name_; }
  std::string spec() const { return "ogb:" + root().string(); }
  Graph read(ReadOptions options = {}) const { return read_graph(spec(), options); }
  void refuse(const std::vector<std::string>& parts) const {
    expect_error([&] { read(); }, parts);
  }

  test::TemporaryFolder folder_;
  std::string name_ = "mini";
};

TEST_F(Ogb, ReadsACsvFolder) {
  const Graph graph = read();
  EXPECT_EQ(graph.name, "mini");
  EXPECT_TRUE(graph.undirected);
  EXPECT_EQ(graph.structure.indptr, (std::vector<Count>{0, 1, 3, 5, 6}));
  EXPECT_EQ(graph.structure.indices, (std::vector<NodeId>{1, 0, 2, 1, 3, 2}));
  EXPECT_EQ(graph.structure.edge_ids, (std::vector<EdgeId>{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(floats_of(graph.features), (std::vector<float>{1, 0.5f, -2, 0, 0, 0, 1e-3f, 4}));
  EXPECT_EQ(graph.labels, (std::vector<std::int32_t>{0, 2, -1, 1}));
  EXPECT_EQ(graph.num_classes, 3);
  EXPECT_EQ(graph.splits.train, (std::vector<NodeId>{0, 1}));
  EXPECT_EQ(graph.splits.valid, std::vector<NodeId>{3});
  EXPECT_EQ(graph.splits.test, std::vector<NodeId>{2});
  EXPECT_EQ(graph.cleaning.edges_read, 3);
  EXPECT_EQ(graph.cleaning.reverse_added, 3);
}

TEST_F(Ogb, AMatrixOfLabelsGivesSetsOfClasses) {
  gz("raw/node-label", "0,1,0\n1,1,1\nnan,nan,nan\n0,0,0\n");
  const Graph graph = read();
  EXPECT_TRUE(graph.multi_label);
  EXPECT_EQ(graph.num_classes, 3);
  EXPECT_EQ(graph.labels, (std::vector<std::int32_t>{0b010, 0b111, 0b1000, 0}));
  std::string wide[4];
  for (int node = 0; node < 4; ++node) {
    for (int c = 0; c < 40; ++c)
      wide[node] += std::string(c == 0 ? "" : ",") + (c % 4 == node || c == 39 ? "1" : "0");
  }
  gz("raw/node-label", wide[0] + "\n" + wide[1] + "\n" + wide[2] + "\n" + wide[3] + "\n");
  EXPECT_EQ(read().num_classes, 40);
  EXPECT_EQ(read().labels, (std::vector<std::int32_t>{0x11111111, 0x91, 0x22222222, 0xa2, 0x44444444, 0xc4,
                                                      static_cast<std::int32_t>(0x88888888), 0x88}));
}

TEST_F(Ogb, RefusesMatricesThatAreNoSets) {
  gz("raw/node-label", "0,1\n1,2\n0,0\n1,1\n");
  refuse({"node-label", "2 in row 1, column 1", "neither 0 nor 1"});
  gz("raw/node-label", "0,1\n1,nan\n0,0\n1,1\n");
  refuse({"row 1 lacks 1 of its 2 labels"});
  gz("raw/node-label", "0,1\nnan,nan\n0,0\n1,1\n");
  refuse({"training node 1 has no label"});
}

TEST_F(Ogb, ReadsPlainCsvWithWindowsLinesAndNoLastNewline) {
  remove("raw/edge.csv.gz");
  write_text(root() / "raw/edge.csv", "0,1\r\n1, 2\r\n3,2");
  EXPECT_EQ(read().structure.indices, (std::vector<NodeId>{1, 0, 2, 1, 3, 2}));
}

TEST_F(Ogb, DirectionIsAsAskedOrAsTheSetIsKnown) {
  EXPECT_EQ(read({.direction = ReadOptions::Direction::directed}).structure.num_edges(), 3);
  EXPECT_FALSE(read({.direction = ReadOptions::Direction::directed}).undirected);
  std::filesystem::rename(root(), folder_ / "ogbn_arxiv");
  name_ = "ogbn_arxiv";
  EXPECT_EQ(read().structure.num_edges(), 3);
  EXPECT_EQ(read({.direction = ReadOptions::Direction::undirected}).structure.num_edges(), 6);
}

TEST_F(Ogb, BothDirectionsListedGiveNoMore) {
  gz("raw/num-edge-list", "6\n");
  gz("raw/edge", "0,1\n1,2\n3,2\n1,0\n2,1\n2,3\n");
  const Graph graph = read();
  EXPECT_EQ(graph.structure.edge_ids, (std::vector<EdgeId>{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(graph.cleaning.duplicates_removed, 3);
}

TEST_F(Ogb, NormalizesRows) {
  const std::vector<float> values = floats_of(read({.normalize_features = true}).features);
  const std::vector<float> expected = {2.0f / 3, 1.0f / 3, -1, 0, 0, 0, 1e-3f / 4.001f, 4 / 4.001f};
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_FLOAT_EQ(values[i], expected[i]) << i;
}

TEST_F(Ogb, FeaturesLabelsAndSplitsMayBeAbsent) {
  for (const char* const name :
       {"raw/node-feat.csv.gz", "raw/node-label.csv.gz", "raw/num-edge-list.csv.gz", "split"})
    remove(name);
  const Graph graph = read();
  EXPECT_EQ(graph.features.cols, 0);
  EXPECT_TRUE(graph.labels.empty());
  EXPECT_TRUE(graph.splits.train.empty());
}

TEST_F(Ogb, ASplitIsChosenAmongSeveral) {
  gz("split/random/train", "3\n");
  gz("split/random/valid", "");
  gz("split/random/test", "0\n");
  refuse({"several splits", ",split=", "public, random"});
  EXPECT_EQ(read_graph(spec() + ",split=random").splits.train, std::vector<NodeId>{3});
  expect_error([&] { read_graph(spec() + ",split=time"); }, {"no split 'time'", "public, random"});
}

TEST_F(Ogb, FilesLongerThanABlockKeepTheirLines) {
  constexpr Count kNodes = 40'000;
  std::string features, labels;
  for (Count v = 0; v < kNodes; ++v) {
    for (int col = 0; col < 20; ++col) features += (col ? "," : "") + std::to_string(v % 1000 * 0.125 + col);
    features += '\n';
    labels += std::to_string(v % 5) + "\n";
  }
  gz("raw/num-node-list", std::to_string(kNodes) + "\n");
  gz("raw/node-feat", features);
  gz("raw/node-label", labels);
  for (const int threads : {1, 3}) {
    const Graph graph = read({.num_threads = threads});
    const std::vector<float> values = floats_of(graph.features);
    for (Count v = 0; v < kNodes; ++v)
      for (int col = 0; col < 20; ++col)
        ASSERT_EQ(values[at(v * 20 + col)], static_cast<float>(v % 1000) * 0.125f + static_cast<float>(col))
            << v;
    EXPECT_EQ(graph.labels[12'346], 1);
  }
  gz("raw/node-feat", features.replace(features.rfind(",1"), 1, ";"));
  refuse({"node-feat.csv.gz:40000:"});
}

TEST_F(Ogb, RefusesMissingFiles) {
  remove("raw/edge.csv.gz");
  refuse({"raw/edge.csv.gz", "no such file"});
  remove("raw/num-node-list.csv.gz");
  refuse({"num-node-list.csv.gz"});
  remove("raw");
  refuse({"no folder 'raw'"});
}

TEST_F(Ogb, RefusesBadEdges) {
  gz("raw/edge", "0,1\n1,2\n");
  refuse({"edge.csv.gz", "2 lines", "num-edge-list states 3"});
  gz("raw/edge", "0,1\n1,2\n3,2\n0,2\n");
  refuse({"edge.csv.gz:4", "num-edge-list states 3"});
  gz("raw/edge", "0,1\n1\n3,2\n");
  refuse({"edge.csv.gz:2", "1 column, but 2"});
  gz("raw/edge", "0,1\n1,2,3\n3,2\n");
  refuse({"edge.csv.gz:2", "more than 2 columns"});
  gz("raw/edge", "0,1\n1,x2\n3,2\n");
  refuse({"edge.csv.gz:2", "column 2", "'x2' is not an integer"});
  gz("raw/edge", "0,1\n1,2.5\n3,2\n");
  refuse({"edge.csv.gz:2", "'2.5'"});
  gz("raw/edge", "0,1\n1,99999999999999999999\n3,2\n");
  refuse({"edge.csv.gz:2", "in range"});
  gz("raw/edge", "0,1\n\n3,2\n");
  refuse({"edge.csv.gz:2", "empty line"});
  gz("raw/edge", "0,1\n1,4\n3,2\n");
  refuse({"edge.csv.gz", "edge 1", "1 to 4", "[0, 4)"});
}

TEST_F(Ogb, RefusesATruncatedGzip) {
  std::string text;
  for (int i = 0; i < 20'000; ++i)
    text += std::to_string(i * 7919 % 4) + "," + std::to_string(i * 104'729 % 4) + "\n";
  remove("raw/num-edge-list.csv.gz");
  gz("raw/edge", text);
  const std::string bytes = test::read_bytes(root() / "raw/edge.csv.gz");
  write_text(root() / "raw/edge.csv.gz", bytes.substr(0, bytes.size() / 2));
  refuse({"edge.csv.gz", "truncated"});
}

TEST_F(Ogb, RefusesBadFeatures) {
  gz("raw/node-feat", "1,0.5\n-2,nan\n0,0\n0,4\n");
  refuse({"node-feat.csv.gz", "feature 1 of node 1", "nan"});
  gz("raw/node-feat", "1,0.5\n-2,1\n0,inf\n0,4\n");
  refuse({"feature 1 of node 2", "inf"});
  gz("raw/node-feat", "1,0.5\n-2\n0,0\n0,4\n");
  refuse({"node-feat.csv.gz:2", "1 column,"});
  gz("raw/node-feat", "1,0.5\n-2,1\n0,1\n");
  refuse({"node-feat.csv.gz", "3 lines", "num-node-list states 4"});
  gz("raw/node-feat", "1,0.5\n-2,one\n0,1\n0,0\n");
  refuse({"node-feat.csv.gz:2", "'one' is not a number"});
}

TEST_F(Ogb, RefusesBadLabels) {
  gz("raw/node-label", "0\n1.5\n0\n0\n");
  refuse({"node-label.csv.gz", "label 1.5", "row 1"});
  gz("raw/node-label", "0\n-3\n0\n0\n");
  refuse({"label -3"});
  gz("raw/node-label", "nan\n1\n0\n0\n");
  refuse({"training node 0 has no label"});
}

TEST_F(Ogb, RefusesBadSplits) {
  gz("split/public/valid", "1\n");
  refuse({"'train' and 'valid' overlap", "the first is 1"});
  gz("split/public/valid", "4\n");
  refuse({"split 'valid' holds node 4", "[0, 4)"});
  gz("split/public/valid", "-1\n");
  refuse({"'valid' holds node -1"});
  gz("split/public/valid", "3\n3\n");
  refuse({"'valid' holds node 3 twice"});
  remove("split/public/valid.csv.gz");
  refuse({"valid.csv.gz", "no such file"});
}

TEST_F(Ogb, RefusesSetsOfOtherKinds) {
  gz("raw/num-node-list", "2\n2\n");
  refuse({"num-node-list.csv.gz", "2 graphs"});
  write_text(root() / "raw/edge_index_dict.npz", "");
  refuse({"num_nodes_dict.npz: no such file"});
}

TEST_F(Ogb, ANumberOfNodesBeyondReasonDoesNotTakeTheMemory) {
  gz("raw/num-node-list", "900000000000\n");
  remove("raw/node-label.csv.gz");
  expect_error<OutOfMemory>([&] { read(); }, {"edge.csv.gz", "900,000,000,000 nodes"});
}

TEST_F(Ogb, AFileWithoutAByteIsNoTableWithoutRows) {
  for (const char* const name : {"split/public/valid.csv.gz", "raw/edge.csv.gz", "raw/node-label.csv.gz"}) {
    const std::string good = test::read_bytes(root() / name);
    write_text(root() / name, "");
    refuse({name, "empty file (0 bytes)", "Copy or download"});
    write_text(root() / name, good);
  }
  gz("split/public/valid", "");  // gzip of no text says that there is none
  EXPECT_TRUE(read().splits.valid.empty());
}

TEST_F(Ogb, SkipsByteOrderMarksAndColumnNames) {
  const std::string mark = "\xEF\xBB\xBF";
  gz("raw/edge", mark + "0,1\n1,2\n3,2\n");
  gz("raw/node-feat", mark + "\"first\", second\r\n1,0.5\n-2,0\n0,0\n1e-3,4\n");
  gz("raw/node-label", "label\n0\n2\nnan\n1\n");
  gz("split/public/train", "node_id\n1\n0\n");
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const Graph graph = read({.direction = ReadOptions::Direction::undirected});
  const std::string log = testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("train.csv.gz:1: taken for names of columns, not read: node_id"), std::string::npos)
      << log;
  EXPECT_EQ(graph.structure.indices, (std::vector<NodeId>{1, 0, 2, 1, 3, 2}));
  EXPECT_EQ(floats_of(graph.features), (std::vector<float>{1, 0.5f, -2, 0, 0, 0, 1e-3f, 4}));
  EXPECT_EQ(graph.labels, (std::vector<std::int32_t>{0, 2, -1, 1}));
  EXPECT_EQ(graph.splits.train, (std::vector<NodeId>{0, 1}));
  gz("raw/edge", "src,dst\n0,1\n1,x\n3,2\n");
  refuse({"edge.csv.gz:3", "column 2", "'x'"});
  gz("raw/edge", "src,dst\n0,1\n1,2\n3,2\n3,1\n");
  refuse({"edge.csv.gz:5", "a further line"});
  gz("raw/edge", "0,1\nsrc,dst\n1,2\n");  // names belong to the first line
  refuse({"edge.csv.gz:2", "'src'"});
}

TEST_F(Ogb, NamesTheByteThatIsNotUtf8) {
  gz("raw/edge",
     "0,1\n1,\xe9"
     "2\n3,2\n");
  refuse({"edge.csv.gz:2", "byte 0xe9 at offset 6 is not UTF-8"});
  gz("raw/edge", std::string("\xff\xfe"
                             "0\0,\0"
                             "1\0\n\0",
                             10));
  refuse({"edge.csv.gz:1", "UTF-16", "iconv"});
  gz("raw/edge", "0,1\n1,2\n3,2\n");
  gz("split/public/train", std::string(10, '\0') + "\n");
  refuse({"train.csv.gz:1", "\\x00"});
}

TEST_F(Ogb, ATableOfOneEndlessLineIsRefused) {
  std::string zeros(std::size_t{270} << 20, '0');
  gz("split/public/train", zeros);
  refuse({"train.csv.gz", "no line ends within"});
}

TEST_F(Ogb, WarnsOfTakingAnUnknownSetAsUndirected) {
  const auto log_of = [&](ReadOptions options) {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    read(options);
    return testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr();
  };
  const std::string log = log_of({});
  EXPECT_NE(log.find("'mini' is not a set whose direction is known"), std::string::npos) << log;
  EXPECT_NE(log.find("--direction directed"), std::string::npos) << log;
  EXPECT_EQ(log_of({.direction = ReadOptions::Direction::undirected}), "");
  EXPECT_EQ(log_of({.direction = ReadOptions::Direction::directed}), "");
  std::filesystem::rename(root(), folder_ / "ogbn_products");
  name_ = "ogbn_products";
  EXPECT_EQ(log_of({}), "");
}

TEST_F(Ogb, AColumnOfTheEdgeFeaturesGivesWeights) {
  gz("raw/edge-feat", "0.5,9\n1.5,8\n0,7\n");
  EXPECT_TRUE(read().structure.weights.empty());
  EXPECT_EQ(read_graph(spec() + ",weight=0").structure.weights,
            (std::vector<float>{0.5, 0.5, 1.5, 1.5, 0, 0}));
  EXPECT_EQ(read_graph(spec() + ",split=public,weight=1").structure.weights,
            (std::vector<float>{9, 9, 8, 8, 7, 7}));
  EXPECT_EQ(read_graph(spec() + ",weight=1,split=public").splits.train, (std::vector<NodeId>{0, 1}));
  expect_error([&] { read_graph(spec() + ",weight=2"); }, {"edge-feat.csv.gz", "column 2", "2 columns"});
  expect_error([&] { read_graph(spec() + ",weight=first"); }, {"weight=first is not a column"});
  expect_error([&] { read_graph(spec() + ",weight=0,weight=1"); }, {"weight= stands twice"});
  expect_error([&] { read_graph(spec() + ",wieght=0"); }, {"unknown key 'wieght'", "Did you mean 'weight'?"});
  gz("raw/edge-feat", "0.5,9\n1.5,8\n");
  expect_error([&] { read_graph(spec() + ",weight=0"); }, {"edge-feat.csv.gz", "2 lines", "states 3"});
  gz("raw/edge-feat", "0.5,9\n-1.5,8\n0,7\n");
  expect_error([&] { read_graph(spec() + ",weight=0"); }, {"edge 1 has the weight -1.5"});
  remove("raw/edge-feat.csv.gz");
  expect_error([&] { read_graph(spec() + ",weight=0"); }, {"edge-feat.csv.gz", "no such file"});
}

TEST_F(Ogb, FoldersMayHaveCommasAndNamesThatAreUtf8) {
  std::filesystem::rename(root(), folder_ / "mini,weight=old,v2");
  name_ = "mini,weight=old,v2";
  EXPECT_EQ(read().num_nodes(), 4);
  std::filesystem::rename(root(), folder_ / "na\xefve");
  name_ = "na\xefve";
  refuse({"byte 0xef", "is not UTF-8"});
  name_ = "link";
  std::filesystem::create_symlink(folder_ / "na\xefve", root());
  refuse({"the graph's name", "byte 0xef at offset 2"});
}

class OgbBinary : public Ogb {
 protected:
  OgbBinary() {
    for (const char* const name :
         {"raw/edge.csv.gz", "raw/num-node-list.csv.gz", "raw/node-feat.csv.gz", "raw/node-label.csv.gz"})
      remove(name);
    write_data(npy_bytes<std::int64_t>("<i8", "(2, 3)", {0, 1, 3, 1, 2, 2}));
    write_labels(npy_bytes<float>("<f4", "(4, 1)", {0, 2, std::numeric_limits<float>::quiet_NaN(), 1}));
  }
  void write_data(const std::string& edges) {
    test::ZipWriter zip;
    zip.add({.name = "edge_index.npy", .contents = edges, .deflated = true});
    zip.add({.name = "num_nodes_list.npy", .contents = npy_bytes<std::int64_t>("<i8", "(1,)", {4})});
    zip.add({.name = "node_feat.npy",
             .contents = npy_bytes<float>("<f4", "(4, 2)", {1, 0.5f, -2, 0, 0, 0, 1e-3f, 4}),
             .deflated = true});
    write_text(root() / "raw/data.npz", zip.finish());
  }
  void write_labels(const std::string& labels) {
    test::ZipWriter zip;
    zip.add({.name = "node_label.npy", .contents = labels});
    write_text(root() / "raw/node-label.npz", zip.finish());
  }
};

TEST_F(OgbBinary, ReadsTheSameGraph) {
  const Graph graph = read();
  EXPECT_EQ(graph.structure.indices, (std::vector<NodeId>{1, 0, 2, 1, 3, 2}));
  EXPECT_EQ(graph.structure.edge_ids, (std::vector<EdgeId>{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(floats_of(graph.features), (std::vector<float>{1, 0.5f, -2, 0, 0, 0, 1e-3f, 4}));
  EXPECT_EQ(graph.labels, (std::vector<std::int32_t>{0, 2, -1, 1}));
  EXPECT_EQ(graph.splits.train, (std::vector<NodeId>{0, 1}));
}

TEST_F(OgbBinary, AColumnOfTheEdgeFeaturesGivesWeights) {
  const auto write = [&](const std::string& features) {
    test::ZipWriter zip;
    zip.add(
        {.name = "edge_index.npy", .contents = npy_bytes<std::int64_t>("<i8", "(2, 3)", {0, 1, 3, 1, 2, 2})});
    zip.add({.name = "num_nodes_list.npy", .contents = npy_bytes<std::int64_t>("<i8", "(1,)", {4})});
    zip.add({.name = "edge_feat.npy", .contents = features});
    write_text(root() / "raw/data.npz", zip.finish());
  };
  const auto weights = [&](const std::string& column) {
    return read_graph(spec() + ",weight=" + column).structure.weights;
  };
  write(npy_bytes<double>("<f8", "(3, 2)", {0.5, 9, 1.5, 8, 0, 7}));
  EXPECT_EQ(weights("1"), (std::vector<float>{9, 9, 8, 8, 7, 7}));
  write(npy_bytes<std::int16_t>("<i2", "(3, 2)", {1, 2, 3, 9, 8, 7}, true));
  EXPECT_EQ(weights("1"), (std::vector<float>{9, 9, 8, 8, 7, 7}));
  write(npy_bytes<float>("<f4", "(3,)", {0.5, 1.5, 0}));
  EXPECT_EQ(weights("0"), (std::vector<float>{0.5, 0.5, 1.5, 1.5, 0, 0}));
  expect_error([&] { weights("1"); }, {"edge_feat", "column 1", "1 columns"});
  write(npy_bytes<float>("<f4", "(2,)", {0.5, 1.5}));
  expect_error([&] { weights("0"); }, {"edge_feat", "2 rows for 3 edges"});
}

TEST_F(OgbBinary, RefusesBadArrays) {
  write_data(npy_bytes<float>("<f4", "(2, 3)", {0, 1, 3, 1, 2, 2}));
  refuse({"data.npz:edge_index", "'f4'"});
  write_data(npy_bytes<std::int64_t>("<i8", "(6,)", {0, 1, 3, 1, 2, 2}));
  refuse({"edge_index", "(6,)", "(2, E)"});
  write_data(npy_bytes<std::int64_t>("<i8", "(2, 3)", {0, 1, 4, 1, 2, 2}));
  refuse({"edge_index", "edge 2", "4 to 2"});
  write_data(npy_bytes<std::int64_t>("<i8", "(2, 3)", {0, 1, 3, 1, 2, 2}));
  write_labels(npy_bytes<std::int64_t>("<i8", "(3,)", {0, 1, 1}));
  refuse({"node-label.npz", "3 labels for 4 nodes"});
  write_labels(npy_bytes<std::int64_t>("<i8", "(2, 2)", {0, 1, 1, 1}));
  refuse({"node-label.npz", "2 labels for 4 nodes"});
  write_labels(npy_bytes<std::int64_t>("<i8", "(2, 2, 1)", {0, 1, 1, 1}));
  refuse({"labels of shape (2, 2, 1)"});
}

}  // namespace
}  // namespace strata::graph
