// SPDX-License-Identifier: Apache-2.0
// Knowledge graphs: nt: and triples:.
#include <gtest/gtest.h>

#include <filesystem>

#include "strata/graph/read_graph.hpp"
#include "support/dataset_files.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace strata::graph {
namespace {

using test::expect_error;
using test::write_gzip;
using test::write_text;
using Ids = std::vector<NodeId>;
using Labels = std::vector<std::int32_t>;

constexpr const char* kTriples =
    "# people\n"
    "<http://x/Ann> <http://x/knows> <http://x/Bob> .\n"
    "<http://x/Bob> <http://x/knows> _:b1 .  # a blank node\n"
    "\n"
    "<http://x/Ann> <http://x/name> \"Ann \\\"A\\\" . <x>\"@en .\n"
    "<http://x/Cid>\t<http://x/age>\t\"7\"^^<http://x/int>\t.\n"
    "<http://x/Bob> <http://x/likes> <http://x/Ann>.\n";

class NTriples : public testing::Test {
 protected:
  NTriples() { graph_file(kTriples); }
  void graph_file(const std::string& text) const { write_text(folder_ / "g.nt", text); }
  std::string spec(const std::string& keys = "") const { return "nt:" + (folder_ / "g.nt").string() + keys; }
  Graph read(const std::string& keys = "") const { return read_graph(spec(keys)); }
  void refuse(const std::string& line, const std::vector<std::string>& parts) const {
    graph_file("<a> <b> <c> .\n" + line + "\n");
    std::vector<std::string> all{"g.nt:2"};
    all.insert(all.end(), parts.begin(), parts.end());
    expect_error([&] { read(); }, all);
  }

  test::TemporaryFolder folder_;
};

TEST_F(NTriples, HaveARelationPerPredicate) {
  const Graph graph = read();
  EXPECT_EQ(graph.types.nodes, std::vector<std::string>{"entity"});
  EXPECT_EQ(graph.types.edges, (std::vector<EdgeType>{{"entity", "http://x/knows", "entity"},
                                                      {"entity", "http://x/likes", "entity"}}));
  EXPECT_EQ(graph.node_names, "_:b1\nhttp://x/Ann\nhttp://x/Bob\nhttp://x/Cid\n");
  EXPECT_EQ(graph.structure.indices, (Ids{2, 2, 1}));
  EXPECT_EQ(graph.structure.indptr, (std::vector<Count>{0, 1, 2, 3, 3}));
  EXPECT_EQ(graph.structure.sublists.relations, (std::vector<RelationId>{0, 1, 0}));
}

TEST_F(NTriples, MayHaveLiteralsAsNodes) {
  const Graph graph = read(",literals");
  EXPECT_EQ(graph.types.edges.size(), 4u);
  EXPECT_EQ(
      graph.node_names,
      "\"7\"^^<http://x/int>\n\"Ann \\\"A\\\" . <x>\"@en\n_:b1\nhttp://x/Ann\nhttp://x/Bob\nhttp://x/Cid\n");
  EXPECT_EQ(graph.structure.num_edges(), 5);
}

TEST_F(NTriples, MayHaveEveryRelationInBothDirections) {
  const Graph graph = read(",literals,reverse");
  EXPECT_EQ(graph.types.edges.size(), 8u);
  EXPECT_EQ(graph.types.edges[4].name, "rev_http://x/age");
  EXPECT_EQ(graph.structure.num_edges(), 10);
  EXPECT_EQ(graph.types.edge_offsets, (std::vector<EdgeId>{0, 1, 3, 4, 5, 6, 8, 9, 10}));
}

TEST_F(NTriples, MayBeCompressed) {
  write_gzip(folder_ / "g.nt", kTriples);
  EXPECT_EQ(read().num_nodes(), 4);
}

TEST_F(NTriples, HaveLabelsAndSplitsInTables) {
  write_text(folder_ / "train.tsv", "person\tid\tgroup\nhttp://x/Bob\t1\tred\nhttp://x/Ann\t2\tblue\n");
  write_text(folder_ / "test.tsv", "person\tid\tgroup\nhttp://x/Cid\t9\tgreen\n");
  const std::string columns = ",id=person,label=group";
  const Graph graph = read(",train=train.tsv,test=test.tsv" + columns);
  EXPECT_EQ(graph.labels, (Labels{-1, 0, 2, 1}));
  EXPECT_EQ(graph.num_classes, 3);
  EXPECT_EQ(graph.splits.train, (Ids{1, 2}));
  EXPECT_TRUE(graph.splits.valid.empty());
  EXPECT_EQ(graph.splits.test, Ids{3});
  const auto refuse_tables = [&](const std::string& keys, const std::vector<std::string>& parts) {
    expect_error([&] { read(keys); }, parts);
  };
  refuse_tables(",train=train.tsv,id=person", {"train.tsv: which column is the label?", ",label=COLUMN"});
  refuse_tables(",train=train.tsv,id=persn,label=group", {"no column 'persn'", "'person'"});
  refuse_tables(",train=none.tsv" + columns, {"none.tsv"});
  refuse_tables(",train=train.tsv,test=train.tsv" + columns,
                {"splits 'train' and 'test' overlap in 2 nodes"});
  write_text(folder_ / "test.tsv", "person\tid\tgroup\nhttp://x/Dan\t9\tgreen\n");
  refuse_tables(",train=train.tsv,test=test.tsv" + columns, {"test.tsv:2", "'http://x/Dan'"});
  write_text(folder_ / "test.tsv", "person\tid\tgroup\nhttp://x/Cid\t9\t\n");
  refuse_tables(",train=train.tsv,test=test.tsv" + columns, {"test.tsv:2", "no class in column 2"});
}

TEST_F(NTriples, TakeTheUsualFilesAboutNodes) {
  write_text(folder_ / "labels.csv", "id,label\nhttp://x/Bob,1\nhttp://x/Ann,0\n");
  const Graph graph =
      read_graph(spec(), {}, {.labels = folder_ / "labels.csv", .train = folder_ / "labels.csv"});
  EXPECT_EQ(graph.labels, (Labels{-1, 0, 1, -1}));
  EXPECT_EQ(graph.splits.train, (Ids{1, 2}));
  write_text(folder_ / "x.csv", "1,3\n0,0\n2,2\n4,1\n");
  const Graph with_rows = read_graph(spec(), {.normalize_features = true}, {.features = folder_ / "x.csv"});
  ASSERT_EQ(with_rows.features.cols, 2);
  const auto* const values = reinterpret_cast<const float*>(with_rows.features.data);
  EXPECT_EQ(std::vector<float>(values, values + 8),
            (std::vector<float>{0.25, 0.75, 0, 0, 0.5, 0.5, 0.8f, 0.2f}));
}

TEST_F(NTriples, RefuseOtherText) {
  refuse("<a> <b> .", {"no <name> of a node"});
  refuse("<a> _:b <c> .", {"no <name> of a predicate", "rdflib"});
  refuse("\"a\" <b> <c> .", {"no <name> of a node"});
  refuse("<a> <b> <c>", {"no '.' behind the object"});
  refuse("<a> <b> <c> <d> .", {"no '.' behind the object"});
  refuse("<a> <b> <c> . <d>", {"text behind the '.'"});
  refuse("<a> <b> \"c .", {"a quotation mark is not closed"});
  refuse("<a> <b> \"c\\\" .", {"a quotation mark is not closed"});
  refuse("<> <b> <c> .", {"no <name> of a node"});
  refuse("<a b> <b> <c> .", {"no <name> of a node"});
  refuse("_: <b> <c> .", {"a blank node without a name"});
  refuse("<a> <b> \"c\"^^x .", {"no <name> of a type"});
  refuse("@prefix x: <http://x/> .", {"no <name> of a node"});
  refuse("<\xff> <b> <c> .", {"UTF-8"});
  graph_file("<a> <b> \"c\" .\n");
  expect_error([&] { read(); }, {"no triple between two nodes", ",literals"});
  graph_file("# nothing\n");
  expect_error([&] { read(); }, {"no triple between two nodes"});
  expect_error([&] { read_graph("nt:" + (folder_ / "no.nt").string()); }, {"no.nt"});
}

class Triples : public testing::Test {
 protected:
  void openke() const {
    write_text(folder_ / "train2id.txt", "3\n0 1 0\n2 3 1\n3\t0\t0\n");
    write_text(folder_ / "entity2id.txt", "4\n/m/b\t1\n/m/a\t0\na c\t2\nd\t3\n");
    write_text(folder_ / "relation2id.txt", "2\n/born/in\t0\n/likes\t1\n");
  }
  Graph read(const std::string& keys = "") const {
    return read_graph("triples:" + folder_.path().string() + keys);
  }
  void refuse(const std::string& file, const std::string& text, const std::vector<std::string>& parts) const {
    openke();
    write_text(folder_ / file, text);
    expect_error([&] { read(); }, parts);
  }

  test::TemporaryFolder folder_;
};

TEST_F(Triples, AreHeadTailAndRelationInNumbers) {
  openke();
  const Graph graph = read();
  EXPECT_EQ(graph.types.edges,
            (std::vector<EdgeType>{{"entity", "/born/in", "entity"}, {"entity", "/likes", "entity"}}));
  EXPECT_EQ(graph.node_names, "/m/a\n/m/b\na c\nd\n");
  EXPECT_EQ(graph.structure.indptr, (std::vector<Count>{0, 1, 2, 2, 3}));
  EXPECT_EQ(graph.structure.indices, (Ids{3, 0, 2}));
  EXPECT_EQ(graph.structure.edge_ids, (std::vector<EdgeId>{1, 0, 2}));
  std::filesystem::remove(folder_ / "entity2id.txt");
  std::filesystem::remove(folder_ / "relation2id.txt");
  const Graph unnamed = read(",reverse");
  EXPECT_EQ(unnamed.num_nodes(), 4);
  EXPECT_EQ(unnamed.types.edges.size(), 4u);
}

TEST_F(Triples, AreHeadRelationAndTailInNames) {
  write_text(folder_ / "train.txt", "Bob\tworks at\tAcme\nAnn\tlikes\tBob\n");
  const Graph graph = read();
  EXPECT_EQ(graph.node_names, "Acme\nAnn\nBob\n");
  EXPECT_EQ(graph.types.edges[1].name, "works at");
  EXPECT_EQ(graph.structure.indices, (Ids{2, 1}));
  EXPECT_EQ(read_graph("triples:" + (folder_ / "train.txt").string()).num_nodes(), 3);
  write_text(folder_ / "train.txt", "Bob\tlikes\n");
  expect_error([&] { read(); }, {"train.txt:1", "not a head, a relation and a tail"});
  write_text(folder_ / "train.txt", "a b c d\n");
  expect_error([&] { read(); }, {"train.txt:1", "more than a head"});
}

TEST_F(Triples, OfValidationAndTestAreHeldOutOfTheLists) {
  openke();
  write_text(folder_ / "valid2id.txt", "2\n1 2 1\n0 3 0\n");
  write_text(folder_ / "test2id.txt", "2\n3 3 1\n0 1 0\n");  // the last one is one of training, too
  const Graph graph = read(",reverse");
  EXPECT_EQ(graph.types.edge_offsets, (std::vector<EdgeId>{0, 4, 7, 11, 14}));
  EXPECT_EQ(graph.structure.num_edges(), 6);
  EXPECT_EQ(graph.structure.edge_ids, (std::vector<EdgeId>{1, 7, 0, 11, 4, 8}));
  EXPECT_EQ(graph.structure.sublists.relations, (std::vector<RelationId>{0, 2, 0, 3, 1, 2}));
  EXPECT_EQ(graph.edge_splits.valid,
            (HeldEdges{.sources = {0, 1, 3, 2}, .destinations = {3, 2, 0, 1}, .edge_ids = {2, 5, 9, 12}}));
  EXPECT_EQ(graph.edge_splits.test,
            (HeldEdges{.sources = {3, 3}, .destinations = {3, 3}, .edge_ids = {6, 13}}));
}

TEST_F(Triples, OfValidationAndTestMayHaveNodesOfTheirOwn) {
  write_text(folder_ / "train.tsv", "Ann\tlikes\tBob\n");
  write_text(folder_ / "test.tsv", "Ann\tlikes\tAcme\n");
  const Graph graph = read();
  EXPECT_EQ(graph.node_names, "Acme\nAnn\nBob\n");
  EXPECT_EQ(graph.structure.indices, (Ids{1}));
  EXPECT_EQ(graph.edge_splits.valid.size(), 0);
  EXPECT_EQ(graph.edge_splits.test, (HeldEdges{.sources = {1}, .destinations = {0}, .edge_ids = {1}}));
}

TEST_F(Triples, RefuseWhatDoesNotFit) {
  refuse("train2id.txt", "4\n0 1 0\n2 3 1\n", {"train2id.txt: 2 lines behind the first, which says 4"});
  refuse("train2id.txt", "0 1 0\n2 3 1\n", {"train2id.txt:1", "not one number of lines"});
  refuse("train2id.txt", "1\n0 1\n", {"train2id.txt:2", "head tail relation"});
  refuse("train2id.txt", "1\n0 1 0 2\n", {"train2id.txt:2", "more than a head"});
  refuse("train2id.txt", "1\n0 -1 0\n", {"train2id.txt:2", "out of range"});
  refuse("train2id.txt", "1\n0 4 0\n", {"the entity 4, but entity2id.txt has 4"});
  refuse("train2id.txt", "1\n0 3 2\n", {"the relation 2, but relation2id.txt has 2"});
  refuse("entity2id.txt", "2\na\t0\nb\t0\n", {"entity2id.txt: the id 0 stands twice"});
  refuse("entity2id.txt", "1\na\n", {"entity2id.txt:2", "not a name and its id"});
  std::filesystem::remove(folder_ / "train2id.txt");
  expect_error([&] { read(); }, {"neither train2id.txt, train.txt nor train.tsv"});
}

TEST(RealTriples, OfAifbAreReadWhole) {
  const auto folder = test::data_folder() / "hetero" / "aifb";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no " << folder << "; set STRATA_DATA";
  const Graph graph = read_graph("nt:" + (folder / "aifb_stripped.nt.gz").string() +
                                 ",literals,train=trainingSet.tsv,test=testSet.tsv,id=person,"
                                 "label=label_affiliation");
  EXPECT_EQ(graph.cleaning.edges_read, 29'043);
  EXPECT_EQ(graph.structure.num_edges(), 29'043);
  EXPECT_EQ(graph.types.edges.size(), 45u);
  EXPECT_EQ(graph.num_nodes(), 8'285);
  EXPECT_EQ(graph.num_classes, 4);
  EXPECT_EQ(graph.splits.train.size(), 140u);
  EXPECT_EQ(graph.splits.test.size(), 36u);
}

TEST(RealTriples, OfFreebaseAreReadWhole) {
  const auto folder = test::data_folder() / "kg" / "FB15K237";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no " << folder << "; set STRATA_DATA";
  const Graph graph = read_graph("triples:" + folder.string());
  EXPECT_EQ(graph.structure.num_edges(), 272'115);
  EXPECT_EQ(graph.edge_splits.valid.size(), 17'535);
  EXPECT_EQ(graph.edge_splits.test.size(), 20'466);
  EXPECT_EQ(graph.types.edges.size(), 237u);
  EXPECT_EQ(graph.num_nodes(), 14'541);
}

}  // namespace
}  // namespace strata::graph
