// SPDX-License-Identifier: Apache-2.0
// IGB's homogeneous sets and DGL's chunked graph format.
#include <gtest/gtest.h>

#include "strata/graph/read_graph.hpp"
#include "support/dataset_files.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace strata::graph {
namespace {

using test::expect_error;
using test::npy_bytes;
using test::write_text;
using Ids = std::vector<NodeId>;

class Igb : public testing::Test {
 protected:
  Igb() {
    std::vector<float> features(5 * 1024, 0.5f);
    paper("node_feat.npy", npy_bytes<float>("<f4", "(5, 1024)", features));
    paper("node_label_19.npy", npy_bytes<float>("<f4", "(5,)", {3, 0, 18, 3, 1}));
    edges("(4, 2)", {0, 1, 1, 0, 2, 1, 4, 3});
  }
  void paper(const std::string& name, const std::string& bytes) {
    write_text(folder_ / "processed/paper" / name, bytes);
  }
  void edges(const std::string& shape, const std::vector<std::int64_t>& ids) {
    write_text(folder_ / "processed/paper__cites__paper/edge_index.npy", npy_bytes("<i8", shape, ids));
  }
  Graph read(const std::string& keys = "") const {
    return read_graph("igb:" + folder_.path().string() + keys);
  }
  void refuse(const std::vector<std::string>& parts, const std::string& keys = "") const {
    expect_error([&] { read(keys); }, parts);
  }

  test::TemporaryFolder folder_;
};

TEST_F(Igb, IsReadWithTheSplitsOfItsPackage) {
  const Graph graph = read();
  EXPECT_EQ(graph.structure.indptr, (std::vector<Count>{0, 1, 3, 3, 4, 4}));
  EXPECT_EQ(graph.structure.indices, (Ids{1, 0, 2, 4}));
  EXPECT_EQ(graph.features.cols, 1024);
  EXPECT_EQ(graph.labels, (std::vector<std::int32_t>{3, 0, 18, 3, 1}));
  EXPECT_EQ(graph.num_classes, 19);
  EXPECT_EQ(graph.splits.train, (Ids{0, 1, 2}));
  EXPECT_EQ(graph.splits.valid, Ids{3});
  EXPECT_EQ(graph.splits.test, Ids{4});
}

TEST_F(Igb, MayBePlainNumbersAndHaveFewerLabelsThanNodes) {
  const std::vector<float> features(5 * 1024, 2.0f), labels{7, 2982, 0};
  paper("node_feat.npy", {reinterpret_cast<const char*>(features.data()), features.size() * 4});
  paper("node_label_2K.npy", {reinterpret_cast<const char*>(labels.data()), labels.size() * 4});
  const Graph graph = read(",classes=2983");
  EXPECT_EQ(graph.num_nodes(), 5);
  EXPECT_EQ(graph.labels, (std::vector<std::int32_t>{7, 2982, 0, -1, -1}));
  EXPECT_EQ(graph.splits.train, Ids{0});
}

TEST_F(Igb, RefusesWhatDoesNotFit) {
  refuse({"node_label_2K.npy: no such file", "classes=19 reads node_label_19.npy"}, ",classes=2983");
  refuse({"classes=20 is not known", "19, 2983"}, ",classes=20");
  paper("node_label_19.npy", npy_bytes<float>("<f4", "(5,)", {3, 0, 19, 3, 1}));
  refuse({"node 2 has label 19, but there are 19 classes"});
  paper("node_label_19.npy", npy_bytes<float>("<f4", "(6,)", {3, 0, 1, 3, 1, 1}));
  refuse({"node_label_19.npy: 6 labels for 5 nodes"});
  paper("node_label_19.npy", npy_bytes<float>("<f4", "(5,)", {3, 0, 1, 3, 1}));
  edges("(1, 2)", {0, 5});
  refuse({"edge_index.npy: edge 0 goes from 0 to 5"});
  paper("node_feat.npy", std::string(4099, 'x'));
  refuse({"node_feat.npy: 4099 bytes are no rows of 1024 float32"});
  std::filesystem::remove_all(folder_ / "processed");
  refuse({"no folder 'processed/paper'"});
}

/// Each file is wrong in one way, and is the only one that the error is about.
TEST_F(Igb, RefusesArraysOfAnotherForm) {
  const std::string features = npy_bytes<float>("<f4", "(5, 2)", std::vector<float>(10, 1.0f));
  const std::string labels = npy_bytes<float>("<f4", "(5,)", {3, 0, 18, 3, 1});
  const auto bad_features = [&](const std::string& bytes, const std::vector<std::string>& parts) {
    paper("node_feat.npy", bytes);
    refuse(parts);
    paper("node_feat.npy", features);
  };
  bad_features(npy_bytes<std::int32_t>("<i4", "(5, 2)", std::vector<std::int32_t>(10, 1)),
               {"node_feat.npy: of type 'i4' and shape (5, 2), not floats of shape (N, columns)"});
  bad_features(npy_bytes<float>("<f4", "(5,)", {1, 1, 1, 1, 1}),
               {"node_feat.npy: of type 'f4' and shape (5,)"});
  bad_features(npy_bytes<float>("<f4", "(5, 0)", {}), {"node_feat.npy: of type 'f4' and shape (5, 0)"});
  bad_features(npy_bytes<float>("<f4", "(4, 2)", std::vector<float>(8, 1.0f)),
               {"node_label_19.npy: 5 labels for 4 nodes, of which", "node_feat.npy has the features"});
  const auto bad_labels = [&](const std::string& bytes, const std::vector<std::string>& parts) {
    paper("node_label_19.npy", bytes);
    refuse(parts);
    paper("node_label_19.npy", labels);
  };
  bad_labels(npy_bytes<float>("<f4", "(5, 2)", std::vector<float>(10, 0.0f)),
             {"node_label_19.npy: of type 'f4' and shape (5, 2), not numbers of shape (N,)"});
  bad_labels(npy_bytes<std::uint8_t>("|b1", "(5,)", {1, 0, 0, 1, 1}), {"node_label_19.npy: of type 'b1'"});
  bad_labels(npy_bytes<float>("<f4", "(3,)", {1, 0, 0}), {"node_label_19.npy: 3 labels for 5 nodes"});
  edges("(2, 4)", {0, 1, 2, 4, 1, 0, 1, 3});
  EXPECT_EQ(read().structure.indices, (Ids{1, 0, 2, 4}));
  edges("(8,)", {0, 1, 2, 4, 1, 0, 1, 3});
  refuse({"edge_index.npy: of type 'i8' and shape (8,), not integers of shape (E, 2)"});
  write_text(folder_ / "processed/paper__cites__paper/edge_index.npy",
             npy_bytes<float>("<f4", "(1, 2)", {0, 1}));
  refuse({"edge_index.npy: of type 'f4' and shape (1, 2)"});
  std::filesystem::remove(folder_ / "processed/paper/node_feat.npy");
  std::filesystem::remove_all(folder_ / "processed/paper__cites__paper");
  refuse({"processed/paper/node_feat.npy, ", "paper__cites__paper/edge_index.npy: no such file"});
}

constexpr const char* kDglMetadata = R"({
  "graph_name": "mini",
  "node_type": ["paper"], "num_nodes_per_chunk": [[2, 2]],
  "edge_type": ["paper:cites:paper"], "num_edges_per_chunk": [[2, 1]],
  "edges": {"paper:cites:paper": {"format": {"name": "csv", "delimiter": " "}, "data": ["e0.csv", "e1.csv"]}},
  "node_data": {"paper": {
    "feat": {"format": {"name": "numpy"}, "data": ["x0.npy", "x1.npy"]},
    "label": {"format": {"name": "numpy"}, "data": ["y.npy"]},
    "year": {"format": {"name": "numpy"}, "data": ["none.npy"]},
    "train_mask": {"format": {"name": "numpy"}, "data": ["train.npy"]}}},
  "edge_data": {"paper:cites:paper": {"weight": {"format": {"name": "numpy"}, "data": ["w.npy"]}}}
})";

class DglChunked : public testing::Test {
 protected:
  DglChunked() {
    metadata(kDglMetadata);
    file("e0.csv", "0 1\n2 1\n");
    file("e1.csv", "3 0\n");
    file("x0.npy", npy_bytes<float>("<f4", "(2, 2)", {1, 2, 3, 4}));
    file("x1.npy", npy_bytes<float>("<f4", "(2, 2)", {5, 6, 7, 8}));
    file("y.npy", npy_bytes<std::int64_t>("<i8", "(4,)", {1, 0, 1, 0}));
    file("train.npy", npy_bytes<std::uint8_t>("|b1", "(4,)", {1, 0, 0, 1}));
    file("w.npy", npy_bytes<float>("<f4", "(3,)", {1, 2, 3}));
  }
  void file(const std::string& name, const std::string& bytes) { write_text(folder_ / name, bytes); }
  void metadata(const std::string& text) { file("metadata.json", text); }
  void change(const std::string& from, const std::string& to) {
    std::string text = kDglMetadata;
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    metadata(text.replace(at, from.size(), to));
  }
  Graph read() const { return read_graph("dgl:" + folder_.path().string()); }
  void refuse(const std::vector<std::string>& parts) const {
    expect_error([&] { read(); }, parts);
  }

  test::TemporaryFolder folder_;
};

TEST_F(DglChunked, IsReadChunkByChunk) {
  const Graph graph = read();
  EXPECT_EQ(graph.name, "mini");
  EXPECT_EQ(graph.structure.indptr, (std::vector<Count>{0, 1, 3, 3, 3}));
  EXPECT_EQ(graph.structure.indices, (Ids{3, 0, 2}));
  EXPECT_EQ(graph.structure.weights, (std::vector<float>{3, 1, 2}));
  const auto* const rows = reinterpret_cast<const float*>(graph.features.data);
  EXPECT_EQ(std::vector<float>(rows, rows + 8), (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(graph.labels, (std::vector<std::int32_t>{1, 0, 1, 0}));
  EXPECT_EQ(graph.splits.train, (Ids{0, 3}));
}

TEST_F(DglChunked, ReadsEdgesOfNumpyToo) {
  change(R"({"name": "csv", "delimiter": " "}, "data": ["e0.csv", "e1.csv"])",
         R"({"name": "numpy"}, "data": ["e.npy"])");
  file("e.npy", npy_bytes<std::int64_t>("<i8", "(3, 2)", {0, 1, 2, 1, 3, 0}));
  EXPECT_EQ(read().structure.indices, (Ids{3, 0, 2}));
  file("e.npy", npy_bytes<std::int64_t>("<i8", "(2, 3)", {0, 2, 3, 1, 1, 0}));
  refuse({"e.npy: edges of shape (2, 3)", "(E, 2)"});
}

/// As DGL's chunk_graph.py writes them.
TEST_F(DglChunked, MayNameFilesByTheirWholePaths) {
  change("\"e1.csv\"", "\"" + (folder_ / "e1.csv").string() + "\"");
  EXPECT_EQ(read().structure.indices, (Ids{3, 0, 2}));
  change("\"e1.csv\"", "\"/moved/away/mini/e1.csv\"");
  EXPECT_EQ(read().structure.indices, (Ids{3, 0, 2}));
  change("\"e1.csv\"", "\"/moved/away/e9.csv\"");
  refuse({"path '/moved/away/e9.csv' leads out", "--allow-outside-paths"});
  const test::TemporaryFolder other;
  write_text(other / "e1.csv", "3 0\n");
  change("\"e1.csv\"", "\"" + (other / "e1.csv").string() + "\"");
  refuse({"e1.csv' leads out", "--allow-outside-paths"});
  change("\"e1.csv\"", "\"" + (folder_ / "none/../../e1.csv").string() + "\"");
  refuse({"e1.csv' leads out"});
  std::filesystem::create_directory_symlink(folder_.path(), other / "link");
  change("\"e1.csv\"", "\"" + (other / "link/e1.csv").string() + "\"");
  EXPECT_EQ(read().structure.indices, (Ids{3, 0, 2}));
}

TEST_F(DglChunked, RefusesWhatItCannotRead) {
  file("e1.csv", "3 x\n");
  refuse({"e1.csv:1: id: 'x' is not an integer"});
  file("e1.csv", "3 4\n");
  refuse({"edge 2 goes from 3 to 4"});
  file("e1.csv", "3 0\n0 0\n");
  refuse({"4 edges in the files, but 3 are stated"});
  file("e1.csv", "3\n");
  refuse({"e1.csv:1: not a source and a destination"});
  file("e1.csv", "3 0\n");
  file("x1.npy", npy_bytes<float>("<f4", "(2, 1)", {5, 6}));
  refuse({"x1.npy: another type or shape than"});
  file("x1.npy", npy_bytes<float>("<f4", "(1, 2)", {5, 6}));
  refuse({"3 rows of features for 4 nodes"});
  file("x1.npy", npy_bytes<float>("<f4", "(2, 2)", {5, 6, 7, 8}));
  file("train.npy", npy_bytes<std::uint8_t>("|u1", "(4,)", {1, 0, 2, 1}));
  refuse({"train.npy: 2 at 2 of a mask is neither 0 nor 1"});
}

TEST_F(DglChunked, RefusesMetadataThatAreWrong) {
  change(R"(["paper"])", R"(["paper", "author"])");
  refuse({"metadata.json: 'num_nodes_per_chunk' is not a list of 2 lists"});
  change(R"(["paper"])", "[]");
  refuse({"metadata.json: 'node_type' is not a list of types"});
  change("\"csv\"", "\"parquet\"");
  refuse({"the format of the edges is 'parquet'", "parquet is not read"});
  change("\"e1.csv\"", "\"../e1.csv\"");
  refuse({"path '../e1.csv' leads out", "--allow-outside-paths"});
  change("[[2, 2]]", "[[2, -2]]");
  refuse({"'num_nodes_per_chunk' holds -2"});
  change("\"edges\"", "\"edgs\"");
  refuse({"no field 'edges'"});
  change("\"e0.csv\", ", "7, ");
  refuse({"'data' of the edges is not a list of files"});
  metadata("{");
  refuse({"metadata.json:", "parse error"});
  metadata("[]");
  refuse({"metadata.json: not an object"});
  metadata(std::string(1000, '['));
  refuse({"metadata.json: values are nested too deeply"});
  std::filesystem::remove(folder_ / "metadata.json");
  refuse({"metadata.json: no such file"});
}

}  // namespace
}  // namespace strata::graph
