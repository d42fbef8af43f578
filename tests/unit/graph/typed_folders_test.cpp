// SPDX-License-Identifier: Apache-2.0
// Graphs of several types in folders of arrays: npy:, igbh:, and a synthetic one.
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "strata/graph/read_graph.hpp"
#include "strata/graph/stored_graph.hpp"
#include "support/dataset_files.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"
#include "typed_lists.hpp"

namespace strata::graph {
namespace {

using test::expect_error;
using test::npy_bytes;
using test::write_text;
using Ids = std::vector<NodeId>;
using Labels = std::vector<std::int32_t>;

/// Two authors, who wrote and cite, and three papers: ids 0 and 1, and 2 to 4.
class TypedNpy : public testing::Test {
 protected:
  TypedNpy() {
    npy("nodes/author/x", npy_bytes<float>("<f4", "(2, 1)", {5, 6}));
    npy("nodes/paper/x", npy_bytes<float>("<f4", "(3, 2)", {1, 2, 3, 4, 7, 8}));
    npy("nodes/paper/y", npy_bytes<std::int64_t>("<i8", "(3,)", {1, 0, -1}));
    npy("nodes/paper/train", npy_bytes<std::int64_t>("<i8", "(1,)", {1}));
    npy("nodes/paper/val", npy_bytes<std::uint8_t>("|b1", "(3,)", {1, 0, 0}));
    npy("edges/author__writes__paper/edge_index",
        npy_bytes<std::int64_t>("<i8", "(2, 3)", {0, 1, 1, 2, 2, 0}));
    npy("edges/paper__cites__paper/edge_index", npy_bytes<std::int32_t>("<i4", "(2, 2)", {1, 2, 0, 0}));
  }
  void npy(const std::string& name, const std::string& bytes) {
    write_text(folder_ / (name + ".npy"), bytes);
  }
  void remove(const std::string& name) { std::filesystem::remove_all(folder_ / name); }
  std::string spec(const std::string& keys = "") const { return "npy:" + folder_.path().string() + keys; }
  Graph read(const std::string& keys = "", const ReadOptions& options = {},
             const NodeFiles& files = {}) const {
    return read_graph(spec(keys), options, files);
  }
  void refuse(const std::vector<std::string>& parts, const std::string& keys = "") const {
    expect_error([&] { read(keys); }, parts);
  }

  test::TemporaryFolder folder_;
};

TEST_F(TypedNpy, HasRangesOfIdsInTheOrderOfNames) {
  const Graph graph = read();
  EXPECT_EQ(graph.types.nodes, (std::vector<std::string>{"author", "paper"}));
  EXPECT_EQ(graph.types.edges,
            (std::vector<EdgeType>{{"author", "writes", "paper"}, {"paper", "cites", "paper"}}));
  EXPECT_EQ(graph.types.node_offsets, (std::vector<Count>{0, 2, 5}));
  EXPECT_EQ(graph.types.edge_offsets, (std::vector<EdgeId>{0, 3, 5}));
  EXPECT_EQ(graph.structure.indptr, (std::vector<Count>{0, 0, 0, 3, 3, 5}));
  EXPECT_EQ(sublist(graph.structure, 2, 0), Ids{1});
  EXPECT_EQ(sublist(graph.structure, 2, 1), (Ids{3, 4}));
  EXPECT_EQ(sublist(graph.structure, 4, 0), (Ids{0, 1}));
  EXPECT_EQ(graph.structure.edge_ids, (std::vector<EdgeId>{2, 3, 4, 0, 1}));
  EXPECT_TRUE(graph.structure.weights.empty());
  EXPECT_EQ(graph.cleaning.edges_read, 5);
}

TEST_F(TypedNpy, FillsRowsOfNarrowTypes) {
  const Graph graph = read();
  EXPECT_EQ(graph.types.feature_cols, (std::vector<Count>{1, 2}));
  EXPECT_EQ(row(graph, 1), (std::vector<float>{6, 0}));
  EXPECT_EQ(row(graph, 4), (std::vector<float>{7, 8}));
}

TEST_F(TypedNpy, HasTypesWithoutFeatures) {
  remove("nodes/author/x.npy");
  npy("nodes/author/num_nodes", npy_bytes<std::int64_t>("<i8", "()", {2}));
  const Graph graph = read();
  EXPECT_EQ(graph.types.feature_cols, (std::vector<Count>{0, 2}));
  EXPECT_EQ(row(graph, 0), (std::vector<float>{0, 0}));
  EXPECT_EQ(row(graph, 2), (std::vector<float>{1, 2}));
}

TEST_F(TypedNpy, KeepsHalvesOnlyIfAllTypesHaveThem) {
  npy("nodes/paper/x", npy_bytes<std::uint16_t>("<f2", "(3, 1)", {0x3c00, 0x4000, 0x4200}));
  Graph graph = read();
  EXPECT_EQ(graph.features.dtype, DType::f32);
  EXPECT_EQ(row(graph, 3), (std::vector<float>{2}));
  npy("nodes/author/x", npy_bytes<std::uint16_t>("<f2", "(2, 2)", {0x3c00, 0, 0, 0x3c00}));
  graph = read();
  EXPECT_EQ(graph.features.dtype, DType::f16);
  const auto* const halves = reinterpret_cast<const std::uint16_t*>(graph.features.data);
  EXPECT_EQ(std::vector<std::uint16_t>(halves, halves + 10),
            (std::vector<std::uint16_t>{0x3c00, 0, 0, 0x3c00, 0x3c00, 0, 0x4000, 0, 0x4200, 0}));
}

TEST_F(TypedNpy, HasTheLabelsAndSplitsOfOneType) {
  const Graph graph = read();
  EXPECT_EQ(graph.labels, (Labels{-1, -1, 1, 0, -1}));
  EXPECT_EQ(graph.num_classes, 2);
  EXPECT_EQ(graph.splits.train, Ids{3});
  EXPECT_EQ(graph.splits.valid, Ids{2});
}

TEST_F(TypedNpy, HasTheLabelsAndSplitsOfAllTypes) {
  npy("nodes/author/y", npy_bytes<std::int64_t>("<i8", "(2,)", {2, -1}));
  npy("nodes/author/train", npy_bytes<std::int64_t>("<i8", "(1,)", {0}));
  const Graph graph = read();
  EXPECT_EQ(graph.labels, (Labels{2, -1, 1, 0, -1}));
  EXPECT_EQ(graph.num_classes, 3) << "those of the type with most";
  EXPECT_EQ(graph.splits.train, (Ids{0, 3}));
  EXPECT_EQ(graph.splits.valid, Ids{2});
  EXPECT_EQ(read(",target=paper").labels, (Labels{-1, -1, 1, 0, -1}));
  expect_error([&] { read("", {}, {.labels = folder_ / "labels.csv"}); }, {"several types", "target=TYPE"});
}

TEST_F(TypedNpy, AsksForTheTypeIfLabelsAreOfTwoKinds) {
  npy("nodes/author/y", npy_bytes<std::int64_t>("<i8", "(2, 3)", {0, 1, 1, 1, 0, 0}));
  refuse({"paper", "one class per node", "sets of 3 classes", "target=TYPE"});
  refuse({"target=papers is no type", "There are: author, paper"}, ",target=papers");
  const Graph graph = read(",target=author");
  EXPECT_TRUE(graph.multi_label);
  EXPECT_EQ(graph.num_classes, 3);
  ASSERT_EQ(std::ssize(graph.labels), 5 * graph.label_words());
  EXPECT_TRUE(has_class(graph.labels.data() + graph.label_words(), 0));
  EXPECT_TRUE(is_unlabelled(graph.labels.data() + 2 * graph.label_words(), 3));
  EXPECT_TRUE(graph.splits.train.empty());
}

TEST_F(TypedNpy, TakesFilesAboutTheNodesOfItsTarget) {
  write_text(folder_ / "labels.csv", "id,label\n2,1\n1,1\n0,0\n");
  Graph graph = read("", {}, {.labels = folder_ / "labels.csv"});
  EXPECT_EQ(graph.labels, (Labels{-1, -1, 0, 1, 1}));
  remove("nodes/paper/y.npy");
  remove("nodes/paper/train.npy");
  remove("nodes/paper/val.npy");
  expect_error([&] { read("", {}, {.labels = folder_ / "labels.csv"}); }, {"several types", "target=TYPE"});
  graph = read(",target=paper", {}, {.labels = folder_ / "labels.csv", .train = folder_ / "labels.csv"});
  EXPECT_EQ(graph.splits.train, (Ids{2, 3, 4}));
  expect_error([&] { read(",target=paper", {}, {.features = folder_ / "nodes/paper/x.npy"}); },
               {"features of one of several types"});
}

TEST_F(TypedNpy, AddsRelationsInTheOtherDirection) {
  const Graph graph = read(",reverse");
  ASSERT_EQ(graph.types.edges.size(), 4u);
  EXPECT_EQ(graph.types.edges[2], (EdgeType{"paper", "rev_writes", "author"}));
  EXPECT_EQ(graph.types.edge_offsets, (std::vector<EdgeId>{0, 3, 5, 8, 10}));
  EXPECT_EQ(sublist(graph.structure, 1, 2), (Ids{2, 4}));
  EXPECT_EQ(sublist(graph.structure, 3, 3), Ids{2});
}

TEST_F(TypedNpy, RemovesDuplicatesWithinARelation) {
  npy("edges/author__writes__paper/edge_index",
      npy_bytes<std::int64_t>("<i8", "(2, 5)", {0, 1, 1, 0, 1, 2, 2, 0, 2, 1}));
  npy("edges/paper__cites__paper/edge_index", npy_bytes<std::int32_t>("<i4", "(2, 3)", {1, 2, 1, 0, 0, 1}));
  npy("edges/author__writes__paper/edge_weight", npy_bytes<float>("<f4", "(5,)", {1, 2, 3, 4, 5}));
  const Graph graph = read("", {.self_loops = EdgePolicy::remove});
  EXPECT_EQ(graph.cleaning.edges_read, 8);
  EXPECT_EQ(graph.cleaning.duplicates_removed, 1);
  EXPECT_EQ(graph.cleaning.self_loops, 1) << "author 1 is not paper 1";
  EXPECT_EQ(graph.structure.indptr, (std::vector<Count>{0, 0, 0, 3, 4, 6}));
  EXPECT_EQ(graph.structure.edge_ids, (std::vector<EdgeId>{2, 5, 6, 4, 0, 1}));
  EXPECT_EQ(graph.structure.weights, (std::vector<float>{3, 1, 1, 5, 1, 2}));
  EXPECT_EQ(graph.structure.sublists.begins, (std::vector<Count>{0, 1, 3, 4, 6}));
  EXPECT_EQ(graph.structure.sublists.first, (std::vector<Count>{0, 0, 0, 2, 3, 4}));
  EXPECT_EQ(read("", {.duplicates = EdgePolicy::keep}).structure.num_edges(), 8);
}

TEST_F(TypedNpy, IsTheSameForEveryNumberOfThreads) {
  const Graph one = read(",reverse", {.num_threads = 1}), three = read(",reverse", {.num_threads = 3});
  EXPECT_EQ(one.structure.indices, three.structure.indices);
  EXPECT_EQ(one.structure.edge_ids, three.structure.edge_ids);
}

TEST_F(TypedNpy, NormalizesRows) {
  const Graph graph = read("", {.normalize_features = true});
  EXPECT_EQ(row(graph, 1), (std::vector<float>{1, 0}));
  EXPECT_EQ(row(graph, 3), (std::vector<float>{3.0f / 7, 4.0f / 7}));
}

TEST_F(TypedNpy, WithOneTypeAndOneRelationIsAnOrdinaryGraph) {
  remove("nodes/author");
  remove("edges/author__writes__paper");
  const Graph graph = read();
  EXPECT_FALSE(graph.types.several());
  EXPECT_EQ(graph.structure.sublists.size(), 0);
  EXPECT_EQ(graph.labels, (Labels{1, 0, -1}));
  EXPECT_EQ(graph.splits.train, Ids{1});
  EXPECT_TRUE(read("", {.direction = ReadOptions::Direction::undirected}).undirected);
}

TEST_F(TypedNpy, IsMeasuredAndWatched) {
  const InputSize size = measure_input(Source(spec()), {});
  EXPECT_EQ(size.nodes, 5);
  EXPECT_EQ(size.edges, 5);
  EXPECT_EQ(measure_input(Source(spec(",reverse")), {}).edges, 10);
  const InputStamp stamp{Source(spec())};
  stamp.require_unchanged();
  npy("edges/paper__cites__paper/edge_index", npy_bytes<std::int32_t>("<i4", "(2, 1)", {1, 0}));
  expect_error([&] { stamp.require_unchanged(); }, {"paper__cites__paper/edge_index.npy changed"});
}

TEST_F(TypedNpy, IsTheSameOnDisk) {
  for (const bool normalize : {false, true})
    expect_same_on_disk(spec(",reverse"), {.normalize_features = normalize});
  npy("edges/author__writes__paper/edge_index",
      npy_bytes<std::int64_t>("<i8", "(2, 5)", {0, 1, 1, 0, 1, 2, 2, 0, 2, 1}));
  npy("edges/author__writes__paper/edge_weight", npy_bytes<float>("<f4", "(5,)", {1, 2, 3, 4, 5}));
  npy("edges/author__draws__paper/edge_index", npy_bytes<std::int64_t>("<i8", "(2, 0)", {}));
  npy("edges/author__sells__paper/edge_index", npy_bytes<std::int32_t>("<i4", "(2, 3)", {0, 1, 1, 2, 2, 1}));
  npy("edges/paper__cites__paper/edge_index", npy_bytes<std::int32_t>("<i4", "(2, 3)", {1, 2, 1, 0, 0, 1}));
  for (const auto policy : {EdgePolicy::keep, EdgePolicy::remove})
    expect_same_on_disk(spec(",reverse"), {.duplicates = policy, .self_loops = policy});
  npy("edges/paper__cites__paper/edge_index", npy_bytes<std::int32_t>("<i4", "(2, 1)", {3, 0}));
  const test::TemporaryFolder folder;
  ScratchStore scratch(folder.path(), 64 << 20);
  expect_error([&] { read_stored_graph(Source(spec()), {}, {}, scratch); },
               {"edge 0 names node 3 of the type 'paper', which has 3 nodes"});
}

TEST_F(TypedNpy, RefusesWhatDoesNotFit) {
  npy("edges/paper__cites__paper/edge_index", npy_bytes<std::int32_t>("<i4", "(2, 2)", {1, 2, 0, 3}));
  refuse({"edge 1 names node 3 of the type 'paper', which has 3 nodes", "within each type"});
  npy("edges/paper__cites__paper/edge_index", npy_bytes<std::int32_t>("<i4", "(2, 2)", {1, -1, 0, 0}));
  refuse({"edge 1 names node -1 of the type 'paper'"});
  npy("edges/paper__cites__paper/edge_index", npy_bytes<std::int32_t>("<i4", "(3, 2)", {1, 2, 0, 0, 1, 1}));
  refuse({"edge_index.npy: edges of shape (3, 2)", "edges.T"});
  npy("edges/paper__cites__paper/edge_index", npy_bytes<float>("<f4", "(2, 1)", {1, 2}));
  refuse({"edge_index.npy: edges of type 'f4'"});
  remove("edges/paper__cites__paper/edge_index.npy");
  refuse({"paper__cites__paper/edge_index.npy", "no such file"});
  remove("edges/paper__cites__paper");
  npy("edges/paper__in__venue/edge_index", npy_bytes<std::int32_t>("<i4", "(2, 1)", {0, 0}));
  refuse({"(paper, in, venue) names the type 'venue'"});
  remove("edges/paper__in__venue");
  npy("edges/paper_cites_paper/edge_index", npy_bytes<std::int32_t>("<i4", "(2, 1)", {0, 0}));
  refuse({"'paper_cites_paper' does not name a relation", "SOURCE__NAME__DESTINATION"});
  remove("edges");
  refuse({"edges: no folder in it"});
}

TEST_F(TypedNpy, RefusesBadNodes) {
  npy("nodes/paper/y", npy_bytes<std::int64_t>("<i8", "(2,)", {1, 0}));
  refuse({"nodes/paper: x.npy says 3 nodes, y.npy says 2"});
  npy("nodes/paper/y", npy_bytes<float>("<f4", "(3,)", {1, 0.5, 0}));
  refuse({"y.npy: label 0.5 in row 1 is not a class"});
  npy("nodes/paper/y", npy_bytes<std::int64_t>("<i8", "(3,)", {1, -1, 0}));
  refuse({"paper: training node 1 has no label"});
  npy("nodes/paper/y", npy_bytes<std::int64_t>("<i8", "(3,)", {1, 1, 0}));
  npy("nodes/paper/train", npy_bytes<std::int64_t>("<i8", "(2,)", {0, 1}));
  refuse({"paper: splits 'train' and 'valid' overlap in 1 node, the first is 0"});
  npy("nodes/paper/train", npy_bytes<std::int64_t>("<i8", "(1,)", {3}));
  refuse({"paper: split 'train' holds node 3, but ids must be within [0, 3)"});
  npy("nodes/paper/train", npy_bytes<std::int64_t>("<i8", "(1,)", {1}));
  npy("nodes/paper/x", npy_bytes<float>("<f4", "(3, 1)", {1, std::numeric_limits<float>::quiet_NaN(), 0}));
  refuse({"nodes/paper/x.npy: feature 0 of node 1 is nan"});
  npy("nodes/paper/x", npy_bytes<float>("<f4", "(3, 1)", {1, 2, 0}));
  npy("nodes/author/feat", npy_bytes<float>("<f4", "(2, 1)", {1, 2}));
  remove("nodes/author/x.npy");
  refuse({"nodes/author/feat.npy: no array of this name is read", "'x.npy'"});
  remove("nodes/author/feat.npy");
  refuse({"nodes/author: neither x.npy, y.npy nor num_nodes.npy"});
  refuse({"nodes=5", "num_nodes.npy"}, ",nodes=5");
}

TEST_F(TypedNpy, RefusesWhatOnlyGraphsOfOneTypeHave) {
  expect_error([&] { read("", {.direction = ReadOptions::Direction::undirected}); },
               {"--direction undirected", ",reverse"});
  refuse({"reverse stands twice"}, ",reverse,reverse");
}

/// Papers, authors and institutes of IGB.
class Igbh : public testing::Test {
 protected:
  Igbh() {
    features("paper", "(5, 4)", 20);
    features("author", "(2, 4)", 8);
    features("institute", "(1, 4)", 4);
    write("paper/node_label_19.npy", npy_bytes<float>("<f4", "(5,)", {3, 0, 18, 3, 1}));
    edges("paper__cites__paper", "(2, 2)", {0, 1, 4, 3});
    edges("paper__written_by__author", "(3, 2)", {0, 1, 1, 0, 2, 1});
    edges("author__affiliated_to__institute", "(1, 2)", {1, 0});
  }
  void write(const std::string& name, const std::string& bytes) {
    write_text(folder_ / "processed" / name, bytes);
  }
  void features(const std::string& type, const std::string& shape, std::size_t count) {
    write(type + "/node_feat.npy", npy_bytes("<f4", shape, std::vector<float>(count, 0.5f)));
  }
  void edges(const std::string& relation, const std::string& shape, const std::vector<std::int64_t>& ids) {
    write(relation + "/edge_index.npy", npy_bytes("<i8", shape, ids));
  }
  Graph read(const std::string& keys = "") const {
    return read_graph("igbh:" + folder_.path().string() + keys);
  }
  void refuse(const std::vector<std::string>& parts, const std::string& keys = "") const {
    expect_error([&] { read(keys); }, parts);
  }

  test::TemporaryFolder folder_;
};

TEST_F(Igbh, IsReadWithThePapersLabels) {
  const Graph graph = read(",reverse");
  EXPECT_EQ(graph.types.nodes, (std::vector<std::string>{"author", "institute", "paper"}));
  EXPECT_EQ(graph.types.edges.size(), 6u);
  EXPECT_EQ(graph.num_nodes(), 8);
  EXPECT_EQ(graph.features.cols, 4);
  EXPECT_EQ(graph.labels, (Labels{-1, -1, -1, 3, 0, 18, 3, 1}));
  EXPECT_EQ(graph.num_classes, 19);
  EXPECT_EQ(graph.splits.train, (Ids{3, 4, 5}));
  EXPECT_EQ(graph.splits.test, Ids{7});
  const RelationId written_by = 2, rev_written_by = 5;
  EXPECT_EQ(graph.types.edges[written_by].name, "written_by");
  EXPECT_EQ(sublist(graph.structure, 1, written_by), (Ids{3, 5}));
  EXPECT_EQ(sublist(graph.structure, 4, rev_written_by), Ids{0});
}

TEST_F(Igbh, RefusesWhatDoesNotFit) {
  edges("paper__written_by__author", "(1, 2)", {0, 2});
  refuse({"edge 0 names node 2 of the type 'author', which has 2 nodes"});
  edges("paper__written_by__author", "(1, 2)", {0, 1});
  std::filesystem::remove(folder_ / "processed/author/node_feat.npy");
  refuse({"processed/author/node_feat.npy: no such file"});
  features("author", "(2, 4)", 8);
  refuse({"node_label_2K.npy: no such file"}, ",classes=2983");
  write("paper/node_label_19.npy", npy_bytes<float>("<f4", "(5,)", {3, 0, 19, 3, 1}));
  refuse({"paper: node 2 has label 19, but there are 19 classes"});
}

TEST(SyntheticIgbh, HasTheProportionsOfIgbh) {
  const Graph graph =
      read_graph("synthetic:igbh,scale=0.00002,cols=8,seed=3", {.duplicates = EdgePolicy::keep});
  EXPECT_EQ(graph.types.nodes,
            (std::vector<std::string>{"author", "conference", "fos", "institute", "journal", "paper"}));
  EXPECT_EQ(graph.types.edges.size(), 11u);
  const std::vector<Count>& first = graph.types.node_offsets;
  const Count papers = first[6] - first[5];
  EXPECT_EQ(papers, 5386);
  EXPECT_EQ(first[1], 5544);
  const auto entries = [&](RelationId r) {
    return graph.types.edge_offsets[at(r) + 1] - graph.types.edge_offsets[at(r)];
  };
  EXPECT_NEAR(static_cast<double>(entries(0)) / static_cast<double>(papers), 29.7, 0.1);
  EXPECT_NEAR(static_cast<double>(entries(1)) / static_cast<double>(papers), 3.90, 0.01);
  EXPECT_EQ(entries(1), entries(6));
  EXPECT_EQ(graph.types.edges[6], (EdgeType{"fos", "rev_topic", "paper"}));
  EXPECT_EQ(graph.features.dtype, DType::f16);
  EXPECT_EQ(graph.features.cols, 8);
  EXPECT_EQ(graph.num_classes, 2983);
  EXPECT_EQ(graph.labels[0], -1);
  EXPECT_EQ(graph.splits.train.size(), 1890u);
  EXPECT_GE(graph.splits.train.front(), first[5]);
  for (NodeId v = first[5]; v < first[6]; ++v) ASSERT_GE(graph.labels[at(v)], 0);
}

TEST(SyntheticIgbh, IsTheSameForEveryNumberOfThreads) {
  const char* const spec = "synthetic:igbh,scale=0.00001,cols=4,dtype=f32";
  const Graph one = read_graph(spec, {.num_threads = 1}), three = read_graph(spec, {.num_threads = 3});
  EXPECT_EQ(one.structure.indices, three.structure.indices);
  EXPECT_EQ(one.structure.edge_ids, three.structure.edge_ids);
  EXPECT_EQ(one.labels, three.labels);
  EXPECT_EQ(one.splits.train, three.splits.train);
  EXPECT_EQ(row(one, one.num_nodes() - 1), row(three, three.num_nodes() - 1));
  const Graph other = read_graph("synthetic:igbh,scale=0.00001,cols=4,dtype=f32,seed=1");
  EXPECT_NE(one.structure.indices, other.structure.indices);
}

TEST(SyntheticIgbh, IsTheSameOnDisk) {
  for (const char* const cols : {"4,dtype=f32", "2,dtype=f16", "0"})
    expect_same_on_disk(std::string("synthetic:igbh,scale=0.00003,cols=") + cols);
}

TEST(SyntheticIgbh, RefusesWhatItDoesNotKnow) {
  expect_error([] { Source("synthetic:igbh,scale=2"); }, {"scale=2 is not within (0, 1]"});
  expect_error([] { Source("synthetic:igbh,colls=2"); }, {"unknown key 'colls'", "'cols'"});
  expect_error([] { Source("synthetic:igbh,dtype=bf16"); }, {"dtype=bf16", "f16, f32"});
  expect_error([] { Source("synthetic:igbh,large"); }, {"'igbh,large' is no key", "scale, cols"});
  expect_error<OutOfMemory>([] { read_graph("synthetic:igbh,scale=1"); },
                            {"no room for the synthetic graph"});
}

}  // namespace
}  // namespace strata::graph
