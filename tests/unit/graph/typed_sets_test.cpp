// SPDX-License-Identifier: Apache-2.0
// Graphs of several types in sets of OGB, DGL and GraphBolt, and in tables of text.
#include <gtest/gtest.h>

#include <filesystem>

#include "strata/graph/read_graph.hpp"
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

/// Authors and papers as ogbn-mag has them: what its package calls names sorts them.
class TypedOgb : public testing::Test {
 protected:
  TypedOgb() {
    table("raw/num-node-dict", "paper,author\n3,2\n");
    table("raw/triplet-type-list", "paper,cites,paper\nauthor,writes,paper\n");
    table("raw/relations/author___writes___paper/edge", "0,2\n1,2\n1,0\n");
    table("raw/relations/author___writes___paper/num-edge-list", "3\n");
    table("raw/relations/paper___cites___paper/edge", "1,0\n2,0\n");
    table("raw/relations/paper___cites___paper/num-edge-list", "2\n");
    table("raw/nodetype-has-feat", "paper,author\nTrue,False\n");
    table("raw/nodetype-has-label", "paper,author\nTrue,False\n");
    table("raw/node-feat/paper/node-feat", "1,2\n3,4\n7,8\n");
    table("raw/node-label/paper/node-label", "1\n0\n2\n");
    table("split/time/nodetype-has-split", "paper,author\nTrue,False\n");
    table("split/time/paper/train", "2\n");
    table("split/time/paper/valid", "0\n");
    table("split/time/paper/test", "1\n");
  }
  void table(const std::string& name, const std::string& text) {
    test::write_gzip(folder_ / (name + ".csv.gz"), text);
  }
  Graph read(const std::string& keys = "") const {
    return read_graph("ogb:" + folder_.path().string() + keys);
  }
  void refuse(const std::vector<std::string>& parts, const std::string& keys = "") const {
    expect_error([&] { read(keys); }, parts);
  }

  test::TemporaryFolder folder_;
};

TEST_F(TypedOgb, IsReadInTheOrderOfNames) {
  const Graph graph = read();
  EXPECT_EQ(graph.types.nodes, (std::vector<std::string>{"author", "paper"}));
  EXPECT_EQ(graph.types.edges,
            (std::vector<EdgeType>{{"author", "writes", "paper"}, {"paper", "cites", "paper"}}));
  EXPECT_EQ(graph.types.node_offsets, (std::vector<Count>{0, 2, 5}));
  EXPECT_EQ(sublist(graph.structure, 4, 0), (Ids{0, 1}));
  EXPECT_EQ(sublist(graph.structure, 2, 1), (Ids{3, 4}));
  EXPECT_EQ(graph.types.feature_cols, (std::vector<Count>{0, 2}));
  EXPECT_EQ(row(graph, 3), (std::vector<float>{3, 4}));
  EXPECT_EQ(graph.labels, (Labels{-1, -1, 1, 0, 2}));
  EXPECT_EQ(graph.splits.train, Ids{4});
  EXPECT_EQ(graph.splits.valid, Ids{2});
  EXPECT_EQ(graph.splits.test, Ids{3});
  EXPECT_EQ(read(",reverse").structure.num_edges(), 10);
}

TEST_F(TypedOgb, IsTheSameOnDisk) { expect_same_on_disk("ogb:" + folder_.path().string() + ",reverse"); }

TEST_F(TypedOgb, RefusesWhatDoesNotFit) {
  table("split/time/paper/test", "3\n");
  refuse({"paper: split 'test' holds node 3", "[0, 3)"});
  table("split/time/paper/test", "1\n");
  table("raw/node-label/paper/node-label", "1\n0\n");
  refuse({"node-label.csv.gz: 2 lines, but num-node-dict states 3"});
  std::filesystem::remove(folder_ / "raw/node-label/paper/node-label.csv.gz");
  refuse({"node-label/paper/node-label.csv.gz: no such file"});
  table("raw/node-label/paper/node-label", "1\n0\n2\n");
  table("raw/relations/author___writes___paper/edge", "0,2\n1,2\n2,0\n");
  refuse({"edge 2 names node 2 of the type 'author', which has 2 nodes"});
  table("raw/relations/author___writes___paper/edge", "0,2\n1,2\n");
  refuse({"author___writes___paper/edge.csv.gz", "num-edge-list"});
  std::filesystem::remove_all(folder_ / "raw/relations/author___writes___paper");
  refuse({"author___writes___paper/edge.csv.gz: no such file"});
  table("raw/triplet-type-list", "paper,cites,venue\n");
  table("raw/relations/paper___cites___venue/edge", "0,2\n");
  refuse({"(paper, cites, venue) names the type 'venue'"});
  table("raw/triplet-type-list", "paper,cites\n");
  refuse({"triplet-type-list.csv.gz:1: 2 fields instead of 3"});
  table("raw/triplet-type-list", "paper,../cites,paper\n");
  refuse({"triplet-type-list.csv.gz: '../cites' is no name"});
  table("raw/num-node-dict", "paper,../author\n3,2\n");
  refuse({"num-node-dict.csv.gz: '../author' is no name"});
  table("raw/num-node-dict", "paper,author\n3,x\n");
  refuse({"num-node-dict.csv.gz:2", "'x' is not an integer"});
  table("raw/num-node-dict", "paper,author\n3,2\n3,2\n");
  refuse({"num-node-dict.csv.gz: 3 lines"});
  refuse({"weight= of a graph of several types"}, ",weight=0");
}

/// The same set in the binary layout of OGB's package.
class BinaryTypedOgb : public TypedOgb {
 protected:
  BinaryTypedOgb() {
    std::filesystem::remove_all(folder_ / "raw");
    arrays("num_nodes_dict", {{"paper", npy_bytes<std::int64_t>("<i8", "(1,)", {3})},
                              {"author", npy_bytes<std::int64_t>("<i8", "(1,)", {2})}});
    arrays("num_edges_dict", {});
    edges({0, 1, 1, 2, 2, 0});
    arrays("node_feat_dict", {{"paper", npy_bytes<float>("<f4", "(3, 2)", {1, 2, 3, 4, 7, 8})}});
    arrays("node-label", {{"paper", npy_bytes<std::int64_t>("<i8", "(3, 1)", {1, 0, 2})}});
  }
  void arrays(const std::string& name,
              const std::vector<std::pair<std::string, std::string>>& members) const {
    test::ZipWriter zip;
    for (const auto& [member, contents] : members)
      zip.add({.name = member + ".npy", .contents = contents, .deflated = true});
    write_text(folder_ / ("raw/" + name + ".npz"), zip.finish());
  }
  void edges(const std::vector<std::int64_t>& written) const {
    arrays("edge_index_dict",
           {{"paper___cites___paper", npy_bytes<std::int64_t>("<i8", "(2, 2)", {1, 2, 0, 0})},
            {"author___writes___paper", npy_bytes<std::int64_t>("<i8", "(2, 3)", written)}});
  }
};

TEST_F(BinaryTypedOgb, IsReadAsTheTablesAre) {
  const Graph graph = read();
  EXPECT_EQ(graph.types.nodes, (std::vector<std::string>{"author", "paper"}));
  EXPECT_EQ(graph.types.edges,
            (std::vector<EdgeType>{{"author", "writes", "paper"}, {"paper", "cites", "paper"}}));
  EXPECT_EQ(sublist(graph.structure, 4, 0), (Ids{0, 1}));
  EXPECT_EQ(sublist(graph.structure, 2, 1), (Ids{3, 4}));
  EXPECT_EQ(graph.types.feature_cols, (std::vector<Count>{0, 2}));
  EXPECT_EQ(row(graph, 3), (std::vector<float>{3, 4}));
  EXPECT_EQ(graph.labels, (Labels{-1, -1, 1, 0, 2}));
  EXPECT_EQ(graph.splits.train, Ids{4});
  EXPECT_EQ(read(",reverse").structure.num_edges(), 10);
}

TEST_F(BinaryTypedOgb, RefusesWhatDoesNotFit) {
  edges({0, 1, 2, 2, 2, 0});
  refuse({"edge 2 names node 2 of the type 'author', which has 2 nodes"});
  edges({0, 1, 1, 2, 2, 0});
  arrays("node-label", {{"paper", npy_bytes<std::int64_t>("<i8", "(2,)", {1, 0})}});
  refuse({"node-label.npz: 2 labels for the 3 nodes of 'paper'"});
  arrays("num_nodes_dict", {{"paper", npy_bytes<std::int64_t>("<i8", "(2,)", {3, 3})}});
  refuse({"num_nodes_dict.npz", "not the number of one graph"});
  arrays("num_nodes_dict", {{"../paper", npy_bytes<std::int64_t>("<i8", "(1,)", {3})}});
  refuse({"num_nodes_dict.npz: '../paper' is no name"});
  std::filesystem::remove(folder_ / "raw/num_nodes_dict.npz");
  refuse({"num_nodes_dict.npz: no such file"});
}

constexpr const char* kTypedMetadata = R"({"graph_name": "mini",
 "node_type": ["author", "paper"], "num_nodes_per_chunk": [[2], [2, 1]],
 "edge_type": ["author:writes:paper", "paper:cites:paper"], "num_edges_per_chunk": [[3], [1, 1]],
 "edges": {"author:writes:paper": {"format": {"name": "csv", "delimiter": " "}, "data": ["w.csv"]},
           "paper:cites:paper": {"format": {"name": "csv", "delimiter": " "}, "data": ["c0.csv", "c1.csv"]}},
 "node_data": {"paper": {"feat": {"format": {"name": "numpy"}, "data": ["x0.npy", "x1.npy"]},
                         "label": {"format": {"name": "numpy"}, "data": ["y.npy"]},
                         "train_mask": {"format": {"name": "numpy"}, "data": ["train.npy"]}},
               "author": {"feat": {"format": {"name": "numpy"}, "data": ["a.npy"]}}},
 "edge_data": {"paper:cites:paper": {"weight": {"format": {"name": "numpy"}, "data": ["cw.npy"]}}}})";

class TypedChunks : public testing::Test {
 protected:
  TypedChunks() {
    write_text(folder_ / "metadata.json", kTypedMetadata);
    write_text(folder_ / "w.csv", "0 2\n1 2\n1 0\n");
    write_text(folder_ / "c0.csv", "1 0\n");
    write_text(folder_ / "c1.csv", "2 0\n");
    write_text(folder_ / "x0.npy", npy_bytes<float>("<f4", "(2, 2)", {1, 2, 3, 4}));
    write_text(folder_ / "x1.npy", npy_bytes<float>("<f4", "(1, 2)", {7, 8}));
    write_text(folder_ / "a.npy", npy_bytes<float>("<f4", "(2, 1)", {5, 6}));
    write_text(folder_ / "y.npy", npy_bytes<std::int64_t>("<i8", "(3,)", {1, 0, 2}));
    write_text(folder_ / "train.npy", npy_bytes<std::uint8_t>("|b1", "(3,)", {0, 0, 1}));
    write_text(folder_ / "cw.npy", npy_bytes<float>("<f4", "(2,)", {3, 4}));
  }
  Graph read(const std::string& keys = "") const {
    return read_graph("dgl:" + folder_.path().string() + keys);
  }
  void change(const std::string& from, const std::string& to) const {
    std::string text = kTypedMetadata;
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    write_text(folder_ / "metadata.json", text.replace(at, from.size(), to));
  }
  void refuse(const std::vector<std::string>& parts, const std::string& keys = "") const {
    expect_error([&] { read(keys); }, parts);
  }

  test::TemporaryFolder folder_;
};

TEST_F(TypedChunks, AreReadTypeByType) {
  const Graph graph = read();
  EXPECT_EQ(graph.types.node_offsets, (std::vector<Count>{0, 2, 5}));
  EXPECT_EQ(sublist(graph.structure, 4, 0), (Ids{0, 1}));
  EXPECT_EQ(sublist(graph.structure, 2, 1), (Ids{3, 4}));
  EXPECT_EQ(graph.structure.weights, (std::vector<float>{1, 3, 4, 1, 1}));
  EXPECT_EQ(row(graph, 0), (std::vector<float>{5, 0}));
  EXPECT_EQ(row(graph, 4), (std::vector<float>{7, 8}));
  EXPECT_EQ(graph.labels, (Labels{-1, -1, 1, 0, 2}));
  EXPECT_EQ(graph.splits.train, Ids{4});
}

TEST_F(TypedChunks, AreTheSameOnDisk) { expect_same_on_disk("dgl:" + folder_.path().string()); }

TEST_F(TypedChunks, RefuseWhatDoesNotFit) {
  change(R"([[3], [1, 1]])", "[[3]]");
  refuse({"'num_edges_per_chunk' is not a list of 2 lists"});
  change(R"([[3], [1, 1]])", "[[4], [1, 1]]");
  refuse({"3 edges in the files, but 4 are stated"});
  change(R"("edge_type": ["author:writes:paper")", R"("edge_type": ["writes")");
  refuse({"no field 'writes'"});
  change(R"("paper"], "num)", R"("papers"], "num)");
  refuse({"names the type 'paper', which the graph does not have"});
  change(R"("author": {"feat")", R"("author": {"label")");
  EXPECT_EQ(read().num_classes, 7);
  write_text(folder_ / "metadata.json", kTypedMetadata);
  write_text(folder_ / "c1.csv", "2 3\n");
  refuse({"edge 1 names node 3 of the type 'paper'"});
}

constexpr const char* kTypedYaml = R"(dataset_name: mini
graph:
  nodes:
    - {type: author, num: 2}
    - {type: paper, num: 3}
  edges:
    - {type: "author:writes:paper", format: csv, path: w.csv}
    - {type: "paper:cites:paper", format: numpy, path: c.npy}
  feature_data:
    - {domain: edge, type: "paper:cites:paper", name: weight, format: numpy, path: cw.npy}
feature_data:
  - {domain: node, type: author, name: feat, format: numpy, path: a.npy}
  - {domain: node, type: paper, name: feat, format: numpy, path: x.npy}
tasks:
  - name: node_classification
    num_classes: 4
    train_set:
      - type: paper
        data:
          - {name: seeds, format: numpy, path: train.npy}
          - {name: labels, format: numpy, path: y.npy}
    validation_set:
      - {type: paper, data: [{name: seeds, format: numpy, path: valid.npy}]}
)";

class TypedBolt : public testing::Test {
 protected:
  TypedBolt() {
    write_text(folder_ / "metadata.yaml", kTypedYaml);
    write_text(folder_ / "w.csv", "0,2\n1,2\n1,0\n");
    write_text(folder_ / "c.npy", npy_bytes<std::int64_t>("<i8", "(2, 2)", {1, 2, 0, 0}));
    write_text(folder_ / "cw.npy", npy_bytes<float>("<f4", "(2,)", {3, 4}));
    write_text(folder_ / "a.npy", npy_bytes<float>("<f4", "(2, 1)", {5, 6}));
    write_text(folder_ / "x.npy", npy_bytes<float>("<f4", "(3, 2)", {1, 2, 3, 4, 7, 8}));
    write_text(folder_ / "train.npy", npy_bytes<std::int64_t>("<i8", "(2,)", {2, 1}));
    write_text(folder_ / "y.npy", npy_bytes<std::int64_t>("<i8", "(2,)", {3, 0}));
    write_text(folder_ / "valid.npy", npy_bytes<std::int64_t>("<i8", "(1,)", {0}));
  }
  Graph read(const std::string& keys = "") const {
    return read_graph("graphbolt:" + folder_.path().string() + keys);
  }
  void change(const std::string& from, const std::string& to) const {
    std::string text = kTypedYaml;
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    write_text(folder_ / "metadata.yaml", text.replace(at, from.size(), to));
  }
  void refuse(const std::vector<std::string>& parts) const {
    expect_error([&] { read(); }, parts);
  }

  test::TemporaryFolder folder_;
};

TEST_F(TypedBolt, IsReadTypeByType) {
  const Graph graph = read();
  EXPECT_EQ(graph.types.node_offsets, (std::vector<Count>{0, 2, 5}));
  EXPECT_EQ(sublist(graph.structure, 4, 0), (Ids{0, 1}));
  EXPECT_EQ(sublist(graph.structure, 2, 1), (Ids{3, 4}));
  EXPECT_EQ(graph.structure.weights, (std::vector<float>{1, 3, 4, 1, 1}));
  EXPECT_EQ(row(graph, 0), (std::vector<float>{5, 0}));
  EXPECT_EQ(row(graph, 4), (std::vector<float>{7, 8}));
  EXPECT_EQ(graph.labels, (Labels{-1, -1, -1, 0, 3}));
  EXPECT_EQ(graph.num_classes, 4);
  EXPECT_EQ(graph.splits.train, (Ids{3, 4}));
  EXPECT_EQ(graph.splits.valid, Ids{2});
  EXPECT_EQ(read(",reverse").types.edges.size(), 4u);
}

TEST_F(TypedBolt, IsTheSameOnDisk) { expect_same_on_disk("graphbolt:" + folder_.path().string()); }

TEST_F(TypedBolt, RefusesWhatDoesNotFit) {
  change("{type: author, num: 2}", "{num: 2}");
  refuse({"metadata.yaml:4", "no field 'type'"});
  change("type: author, name: feat", "type: venue, name: feat");
  refuse({"the type 'venue' is not one of 'nodes'"});
  change("\"author:writes:paper\"", "writes");
  refuse({"'writes' does not name a relation", "author:writes:paper"});
  change("validation_set:\n      - {type: paper", "validation_set:\n      - {type: author");
  EXPECT_EQ(read().splits.valid, Ids{0});
  EXPECT_EQ(read().splits.train, (Ids{3, 4})) << "papers";
  EXPECT_TRUE(read(",target=author").splits.train.empty());
  write_text(folder_ / "metadata.yaml", kTypedYaml);
  write_text(folder_ / "valid.npy", npy_bytes<std::int64_t>("<i8", "(1,)", {3}));
  refuse({"split 'valid' holds node 3", "[0, 3)"});
}

class TypedTables : public testing::Test {
 protected:
  TypedTables() {
    table("nodes/person.csv", "id,age,label,split\nAnn,30,1,train\nBob,40,0,valid\n\"Cid, C\",50,,\n");
    table("nodes/shop.tsv", "name\tsize\tstars\nA\t1\t2\nB\t3\t4\n");
    table("edges/person__knows__person.csv", "src,dst\nAnn,Bob\n\"Cid, C\",Bob\n");
    table("edges/person__visits__shop.csv", "from,to,weight\nBob,1,0.5\nAnn,0,2\n");
  }
  void table(const std::string& name, const std::string& text) const { write_text(folder_ / name, text); }
  Graph read(const std::string& keys = "") const {
    return read_graph("csv:" + folder_.path().string() + keys);
  }
  void refuse(const std::vector<std::string>& parts, const std::string& keys = "") const {
    expect_error([&] { read(keys); }, parts);
  }

  test::TemporaryFolder folder_;
};

TEST_F(TypedTables, AreReadByNamesOrRows) {
  const Graph graph = read();
  EXPECT_EQ(graph.types.nodes, (std::vector<std::string>{"person", "shop"}));
  EXPECT_EQ(graph.types.edges,
            (std::vector<EdgeType>{{"person", "knows", "person"}, {"person", "visits", "shop"}}));
  EXPECT_EQ(sublist(graph.structure, 1, 0), (Ids{0, 2}));
  EXPECT_EQ(sublist(graph.structure, 4, 1), Ids{1});
  EXPECT_EQ(graph.structure.weights, (std::vector<float>{1, 1, 2, 0.5}));
  EXPECT_EQ(graph.types.feature_cols, (std::vector<Count>{1, 2}));
  EXPECT_EQ(row(graph, 1), (std::vector<float>{40, 0}));
  EXPECT_EQ(row(graph, 4), (std::vector<float>{3, 4}));
  EXPECT_EQ(graph.labels, (Labels{1, 0, -1, -1, -1}));
  EXPECT_EQ(graph.splits.train, Ids{0});
  EXPECT_EQ(graph.splits.valid, Ids{1});
  EXPECT_EQ(graph.node_names, "Ann\nBob\nCid, C\n0\n1\n");
  EXPECT_EQ(read(",reverse").types.edges.size(), 4u);
  test::write_gzip(folder_ / "nodes/shop.tsv.gz", "name\tsize\nA\t1\nB\t3\n");
  std::filesystem::remove(folder_ / "nodes/shop.tsv");
  EXPECT_EQ(read().types.feature_cols, (std::vector<Count>{1, 1}));
}

TEST_F(TypedTables, AreTheSameOnDisk) { expect_same_on_disk("csv:" + folder_.path().string() + ",reverse"); }

TEST_F(TypedTables, RefuseWhatDoesNotFit) {
  table("edges/person__knows__person.csv", "src,dst\nAnn,Dan\n");
  refuse({"person__knows__person.csv: 'Dan' is not an id of", "person.csv"});
  table("edges/person__knows__person.csv", "src,dst\nAnn,Bob\n");
  table("edges/person__visits__shop.csv", "from,to\nBob,2\n");
  refuse({"edge 0 names node 2 of the type 'shop', which has 2 nodes"});
  table("edges/person__visits__shop.csv", "from,to\nBob,B\n");
  refuse({"person__visits__shop.csv:2", "'B' is not an integer"});
  table("edges/person__visits__shop.csv", "from,to\nBob,1\n");
  table("edges/person__in__city.csv", "from,to\nBob,1\n");
  refuse({"there is no table of the type 'city'", "nodes/city.csv"});
  std::filesystem::remove(folder_ / "edges/person__in__city.csv");
  table("nodes/person.csv", "id,age,label,split\nAnn,30,1,train\nAnn,40,0,valid\n");
  refuse({"person.csv: the id 'Ann' stands twice"});
  table("nodes/person.csv", "id,age,label,split\nAnn,30,1,trian\nBob,40,0,valid\n");
  refuse({"person.csv: the split 'trian' of node 0"});
  table("nodes/person.csv", "1,2\n3,4\n");
  refuse({"person.csv: no line names its columns"});
  refuse({"a key of one list of edges"}, ",ids=string");
  std::filesystem::remove_all(folder_ / "nodes");
  refuse({"nodes: no table in it"});
}

TEST(GraphsOfOneType, RefuseWhatNeedsSeveral) {
  const test::TemporaryFolder folder;
  write_text(folder / "edge_index.npy", npy_bytes<std::int64_t>("<i8", "(2, 1)", {0, 1}));
  expect_error([&] { read_graph("npy:" + folder.path().string() + ",reverse"); },
               {"reverse has no effect", "--direction undirected"});
  expect_error([&] { read_graph("npy:" + folder.path().string() + ",target=paper"); },
               {"target= has no effect"});
}

}  // namespace
}  // namespace strata::graph
