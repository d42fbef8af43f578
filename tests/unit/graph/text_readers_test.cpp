// SPDX-License-Identifier: Apache-2.0
// Edge lists, METIS graphs and Matrix Market files.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "strata/graph/read_graph.hpp"
#include "support/dataset_files.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace strata::graph {
namespace {

using test::expect_error;
using test::write_gzip;
using test::write_text;
using Direction = ReadOptions::Direction;
using Ids = std::vector<NodeId>;

class TextFile : public testing::Test {
 protected:
  void write(const std::string& text) const { write_text(path_, text); }
  Graph read(const std::string& prefix, const std::string& keys = "", ReadOptions options = {}) const {
    return read_graph(prefix + ":" + path_.string() + keys, options);
  }
  void refuse(const std::string& prefix, const std::string& text, const std::vector<std::string>& parts,
              const std::string& keys = "") const {
    write(text);
    expect_error([&] { read(prefix, keys); }, parts);
  }

  std::string write_edges() const {
    write_text(folder_ / "edges.csv", "0,1\n");
    return (folder_ / "edges.csv").string();
  }

  test::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "graph.txt";
};

using EdgeList = TextFile;
using Metis = TextFile;
using MatrixMarket = TextFile;

TEST_F(EdgeList, IsReadWithAnySeparatorAndComments) {
  for (const char* const text :
       {"# a comment\n0\t1\n2\t1\n\n1\t2\n", "0,1\n2, 1\n1 ,2\n", "% other\n0 1\n 2   1\n1 2",
        "0;1\r\n2;1\r\n1;2\r\n", "from,to\n0,1\n2,1\n1,2\n",
        "\xEF\xBB\xBF"
        "0|1\n2|1\n1|2\n",
        "\"0\",\"1\"\n\"2\",\"1\"\n\"1\",\"2\"\n"}) {
    write(text);
    const Graph graph = read("csv");
    EXPECT_EQ(graph.structure.indptr, (std::vector<Count>{0, 0, 2, 3})) << text;
    EXPECT_EQ(graph.structure.indices, (Ids{0, 2, 1})) << text;
    EXPECT_EQ(graph.name, "graph");
    EXPECT_TRUE(graph.node_names.empty());
  }
  write("0:1:a b\n2:1:c\n");
  EXPECT_EQ(read("snap", ",separator=colon").structure.indices, (Ids{0, 2}));
}

TEST_F(EdgeList, MayHaveSeveralCharactersBetweenFields) {
  write("0::1::0.5::a:b\n 2 :: 1 ::1:: \n\"1\"::\"2\"::2::c\n");
  const Graph graph = read("csv", ",separator=::,weight=2");
  EXPECT_EQ(graph.structure.indices, (Ids{0, 2, 1}));
  EXPECT_EQ(graph.structure.weights, (std::vector<float>{0.5, 1, 2}));
  write("a-->b\nb-->c-d\n");
  EXPECT_EQ(read("csv", ",separator=-->,ids=string").node_names, "a\nb\nc-d\n");
  refuse("csv", "0::1\n1:2\n", {"graph.txt:2: 1 column, but column 1 is wanted"}, ",separator=::");
  refuse("csv", "\"0\":\"1\"\n", {"graph.txt:1: text behind a closing quotation mark"}, ",separator=::");
  for (const char* const wrong : {"kolon", "1", "a b", "\"", ""})
    expect_error([&] { read("csv", std::string(",separator=") + wrong); },
                 {"separator=", "is not known", "Known are: comma, semicolon", "such as ::"});
}

TEST_F(EdgeList, LeavesOutEdgesOfOtherTimes) {
  write("0,1,10\n1,2,20.5\n2,3,-3e1\n3,0,20.5\n");
  EXPECT_EQ(read("csv", ",time=2").structure.num_edges(), 4);
  const Graph later = read("csv", ",time=2,since=10");
  EXPECT_EQ(later.structure.indices, (Ids{3, 0, 1}));
  EXPECT_EQ(later.cleaning.edges_read, 3);
  EXPECT_EQ(read("csv", ",time=2,until=10").structure.indices, (Ids{2}));
  EXPECT_EQ(read("csv", ",time=2,since=10,until=20.5,nodes=9").num_nodes(), 9);
  EXPECT_EQ(read("csv", ",time=2,since=10,until=20.5,ids=string").node_names, "0\n1\n");
  const Graph weighted = read("csv", ",time=2,weight=0,since=20");
  EXPECT_EQ(weighted.structure.weights, (std::vector<float>{3, 1}));
  refuse("csv", "0,1,x\n", {"graph.txt:1: time: 'x' is not a number"}, ",time=2");
  refuse("csv", "0,1,2024-01-01\n", {"graph.txt:1: time: '2024-01-01'", "write dates as numbers"}, ",time=2");
  refuse("csv", "0,1,1\n0,1,inf\n", {"graph.txt:2: time inf is not finite"}, ",time=2");
  refuse("csv", "0,1,1e999\n", {"graph.txt:1: time", "in range"}, ",time=2");
  refuse("csv", "0,1\n", {"graph.txt:1: 2 columns, but column 2 is wanted"}, ",time=2");
  refuse("csv", "0,1,5\n1,2,7\n", {"times from 5 to 7, and no edge from since= on"}, ",time=2,since=8");
  expect_error([&] { read("csv", ",since=8"); }, {"since= and until= have no effect without time="});
  expect_error([&] { read("csv", ",time=2,since=8,until=8"); }, {"since=8 is not before until=8"});
  expect_error([&] { read("csv", ",time=2,since=monday"); }, {"since=monday is not a time"});
}

TEST_F(EdgeList, TakesDirectionsFromSnapsComments) {
  write("# Undirected graph: x.txt\n0 1\n1 2\n");
  EXPECT_EQ(read("snap").structure.indices, (Ids{1, 0, 2, 1}));
  EXPECT_EQ(read("snap", "", {.direction = Direction::directed}).structure.indices, (Ids{0, 1}));
  write("# Directed graph (each unordered pair of nodes is saved once)\n0 1\n1 2\n");
  EXPECT_FALSE(read("snap").undirected);
  EXPECT_TRUE(read("snap", "", {.direction = Direction::undirected}).undirected);
}

TEST_F(EdgeList, HasColumnsForWeightsAndOthers) {
  write("time,a,b,w\n7,0,1,0.5\n8,2,1,1e1\n9,1,0,0\n");
  const Graph graph = read("csv", ",source=1,target=2,weight=3");
  EXPECT_EQ(graph.structure.indices, (Ids{1, 0, 2}));
  EXPECT_EQ(graph.structure.weights, (std::vector<float>{0, 0.5, 10}));
  refuse("csv", "0,1,-1\n", {"graph.txt:1: weight -1 is negative or not finite"}, ",weight=2");
  refuse("csv", "0,1,1\n0,1,nan\n", {"graph.txt:2: weight nan"}, ",weight=2");
  refuse("csv", "0,1,x\n", {"graph.txt:1: weight: 'x' is not a number"}, ",weight=2");
  refuse("csv", "0,1\n", {"graph.txt:1: 2 columns, but column 5 is wanted"}, ",weight=5");
  expect_error([&] { read("csv", ",source=1"); }, {"source=1 and target=1 are one column"});
  expect_error([&] { read("csv", ",ids=text"); }, {"ids=text is not known", "number, sparse, string"});
}

TEST_F(EdgeList, NumbersOtherIdsInTheirOrder) {
  write("9000000000000 -5\n7 9000000000000\n");
  const Graph sparse = read("snap", ",ids=sparse");
  EXPECT_EQ(sparse.node_names, "-5\n7\n9000000000000\n");
  EXPECT_EQ(sparse.structure.indptr, (std::vector<Count>{0, 1, 1, 2}));
  EXPECT_EQ(sparse.structure.indices, (Ids{2, 1}));
  write("Zoe,\"Adam, B\"\nBob,Zoe\n");
  const Graph named = read("csv", ",ids=string");
  EXPECT_EQ(named.node_names, "Adam, B\nBob\nZoe\n");
  EXPECT_EQ(named.structure.indices, (Ids{2, 1}));
  write("who,whom\nb,a\n");
  EXPECT_EQ(read("csv", ",ids=string,header=yes").node_names, "a\nb\n");
}

TEST_F(EdgeList, LinesMayEndAsOnOldMacs) {
  for (const char* const text :
       {"a,b\r0,1\r2,1\r1,2\r", "a,b\r0,1\r2,1\r1,2", "a,b\r\n0,1\r2,1\n1,2\r\n",
        "# Nodes: 3\ra,b\r0,1\r\r2,1\r1,2\r\r\n", "a,b\r\r\n0,1\r\r\n2,1\r\r\n1,2"}) {
    write(text);
    EXPECT_EQ(read("csv").structure.indices, (Ids{0, 2, 1})) << text;
  }
  refuse("csv", "0,1\r1,x\r", {"graph.txt:2: id: 'x'", "at byte 4"});
}

/// Blocks may end between "\r" and "\n".
TEST_F(EdgeList, LineEndsMayLieBetweenBlocks) {
  for (const char* const end : {"\r\n", "\r"}) {
    std::string text;
    while (text.size() < (std::size_t{64} << 10) - 10) text += "7,0" + std::string(end);
    for (int shift = 0; shift < 12; ++shift) {
      write(std::string(at(shift), ' ') + text + "1,2" + end + "3,4" + end + "5,6" + end);
      const Graph graph = read("csv");
      EXPECT_EQ(graph.structure.indices, (Ids{7, 1, 3, 5})) << shift;
    }
  }
}

TEST_F(EdgeList, RefusesLinesOfOtherLengths) {
  refuse("snap", "5 1 2\n1 5\n2 5\n",
         {"graph.txt:2: 2 columns, but the first line has 3", "lists of neighbors"});
  refuse("snap", "5 1\n1 5 2\n", {"graph.txt:2: 3 columns, but the first line has 2"});
  refuse("csv", "a,b,weight\n0,1,2\n1,0,2,9\n", {"graph.txt:3: 4 columns, but the first line has 3"});
  refuse("csv", "Doe, J,1,2\nRoe,1,2\n", {"graph.txt:2: 3 columns", "double quotes"},
         ",ids=string,source=2,target=1");
  write("\"Doe, J\",3,\"say \"\"hi\"\"\"\nRoe,2,\"\"\n");
  EXPECT_EQ(read("csv", ",ids=string,source=0,target=1").node_names, "2\n3\nDoe, J\nRoe\n");
  write("\"say \"\"hi\"\"\",\"a\"\"b\"\n");
  EXPECT_EQ(read("csv", ",ids=string").node_names, "a\"b\nsay \"hi\"\n");
}

TEST_F(EdgeList, TakesColumnsByTheirNames) {
  for (const char* const text : {"eid,src,dst,time\n0,4,2,9\n1,2,3,8\n", "dst;Src\n2;4\n3;2\n",
                                 "Weight,TO,From\n1,2,4\n1,3,2\n", ",source,target\n0,4,2\n1,2,3\n",
                                 "# eid src dst\n7 4 2\n8 2 3\n", "\"to_node\"|\"from_node\"\n2|4\n3|2\n"}) {
    write(text);
    EXPECT_EQ(read("csv").structure.indptr, (std::vector<Count>{0, 0, 0, 1, 2, 2})) << text;
    EXPECT_EQ(read("csv").structure.indices, (Ids{4, 2})) << text;
  }
  write("x,Source,Target\n7,b,a\n");
  EXPECT_EQ(read("csv", ",ids=string").node_names, "a\nb\n");
  write("n,Weight,src,dst,When\n0,0.5,1,2,7\n0,2,2,0,8\n");
  EXPECT_EQ(read("csv").structure.weights, (std::vector<float>{2, 0.5}));
  EXPECT_EQ(read("csv", ",weight=n").structure.weights, (std::vector<float>{0, 0}));
  EXPECT_EQ(read("csv", ",source=n,target=SRC,weight=weight").structure.indices, (Ids{0, 0}));
  EXPECT_EQ(read("csv", ",time=when,since=8").structure.indices, (Ids{2}));
  expect_error([&] { read("csv", ",weight=wieght"); },
               {"no column 'wieght', which weight= names", "'Weight'"});
  refuse("csv", "0,1,2\n", {"no column 'cost'", "No line names the columns"}, ",weight=cost");
  for (const char* const text : {",a,b\n0,4,2\n", "index,a,b\n0,4,2\n", "source,what,whom\n0,4,2\n9,1,1\n"}) {
    write(text);
    if (text[0] != 's')
      expect_error([&] { read("csv"); }, {"which columns have the two nodes", "source=1,target=2"});
    EXPECT_EQ(read("csv", ",source=1,target=2").structure.indices.front(), text[0] == 's' ? 1 : 4) << text;
  }
}

TEST_F(EdgeList, ComparesItselfWithWhatItsCommentsState) {
  refuse("snap", "# Nodes: 3 Edges: 2\n2 9\n9 4\n",
         {"its comments state 3 nodes, but ids go to 9", "ids=sparse", "nodes=10"});
  EXPECT_EQ(read("snap", ",ids=sparse").num_nodes(), 3);
  EXPECT_EQ(read("snap", ",nodes=10").num_nodes(), 10);
  refuse("snap", "# Nodes: 3\tEdges: 3\n0 1\n1 2\n", {"its comments state 3 edges, but it has 2", "cut off"});
  refuse("snap", "#nodes = 1,200\n0 1200\n", {"state 1,200 nodes, but ids go to 1,200"});
  refuse("snap", "# Nodes: 2 Edges: 2\n7 8\n8 9\n", {"state 2 nodes, but 3 different ids"}, ",ids=sparse");
  refuse("snap", "% asym positive\n% 3 2 2\n1 2 5\n2 1 5\n", {"its comments state 3 edges, but it has 2"});
  refuse("snap", "% asym positive\n% 2 2 2\n1 2 5\n2 1 5\n",
         {"its comments state 2 nodes, but ids go to 2", "ids=sparse"});
  refuse("snap", "% bip unweighted\n% 2 2 1\n1 1\n2 1\n", {"a bipartite graph of KONECT"});
  refuse("snap", "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n",
         {"a Matrix Market file", "mtx:"});
  write("# Nodes: 5 Edges: 2\n0 1\n1 2\n");
  EXPECT_EQ(read("snap").num_nodes(), 5);
  write("# Undirected graph of 9 nodes: x\n# Edges: 3\n0 1\n1 0\n1 1\n1 2\n2 1\n");
  EXPECT_TRUE(read("snap").undirected);
  EXPECT_EQ(read("snap").structure.num_edges(), 5);
}

TEST_F(EdgeList, UnderstandsDirectionsInOtherWords) {
  for (const char* const comment :
       {"# Undirected", "% undirected graph", "# directed: false", "#Undirected = true", "% sym unweighted",
        "# this is an Undirected Graph"}) {
    write(std::string(comment) + "\n0 1\n1 2\n");
    EXPECT_TRUE(read("snap").undirected) << comment;
  }
  for (const char* const comment :
       {"# Directed", "% asym unweighted", "# undirected: no", "# made from what was undirected",
        "# redirected graph: undirected parts"}) {
    write(std::string(comment) + "\n0 1\n1 2\n");
    EXPECT_FALSE(read("snap").undirected) << comment;
  }
}

TEST_F(TextFile, IsUnpackedOrSaidToBeCompressed) {
  const std::vector<std::pair<std::string, std::string>> kinds{
      {std::string("\xfd"
                   "7zXZ\0\0",
                   7),
       "xz"},
      {"BZh91AY&SY\x01", "bzip2"},
      {"PK\x03\x04\x14", "zip"},
      {"\x04\x22\x4d\x18", "lz4"},
      {"7z\xbc\xaf\x27\x1c", "7z"},
      {"graph/" + std::string(251, '\0') + "ustar", "tar"}};
  for (const auto& [bytes, name] : kinds) {
    for (const char* const prefix : {"csv", "metis", "mtx"})
      refuse(prefix, bytes, {"graph.txt: compressed by " + name + ": unpack it first"});
    expect_error([&] { read_graph("csv:" + write_edges(), {}, {.labels = path_}); },
                 {"compressed by " + name});
    const auto array = folder_ / "y.npy";
    write_text(array, bytes);
    expect_error([&] { read_graph("csv:" + write_edges(), {}, {.labels = array}); },
                 {"y.npy: compressed by " + name});
  }
  write_gzip(path_, kinds.back().first);
  expect_error([&] { read("csv"); }, {"compressed by tar"});
  write_gzip(folder_ / "x.npy", "0 1");
  expect_error([&] { read_graph("csv:" + write_edges(), {}, {.features = folder_ / "x.npy"}); },
               {"x.npy: compressed by gzip: unpack it first"});
}

TEST_F(EdgeList, RefusesWhatItCannotRead) {
  refuse("csv", "0,1\n1,x\n", {"graph.txt:2: id: 'x' is not an integer", "(the line begins at byte 4)"});
  refuse("csv", "0,1\n1\n", {"graph.txt:2: 1 column, but column 1 is wanted, counted from 0"});
  refuse("csv", "0,1\n1,1.5\n", {"graph.txt:2: id: '1.5'"});
  refuse("csv", "0,1\n99999999999999999999,1\n", {"graph.txt:2:", "is not an integer in range"});
  refuse("csv", "0,-1\n", {"graph.txt:1: id -1 is negative", "ids=sparse"});
  refuse("csv", "0,\"1\n", {"graph.txt:1: a quotation mark is not closed"});
  refuse("csv", "0,1\n1,\xe9\n", {"graph.txt:2: byte 0xe9 at offset 6 is not UTF-8"});
  refuse("csv", "a,\n", {"graph.txt:1: an empty name of a node"}, ",ids=string");
  refuse("csv",
         "\xff\xfe"
         "0",
         {"UTF-16"});
  refuse("csv", "0,5000000000\n", {"ids up to 5000000000 for 1 edge", "ids=sparse"});
  refuse("csv", "0,9223372036854775807\n", {"graph.txt: there is node 9223372036854775807"});
  refuse("csv", "0,5\n", {"nodes=5, but there is node 5"}, ",nodes=5");
  refuse("csv", "", {"graph.txt: empty file"});
  expect_error([&] { read_graph("csv:" + (folder_ / "none.csv").string()); }, {"none.csv: cannot be opened"});
}

TEST_F(EdgeList, KeepsNodesWithoutEdges) {
  write("0,1\n");
  EXPECT_EQ(read("csv", ",nodes=5").num_nodes(), 5);
  write("# nothing\n");
  EXPECT_EQ(read("csv").num_nodes(), 0);
}

/// Ids beyond 32 bits come late, and blocks end anywhere.
TEST_F(EdgeList, OfManyBlocksIsTheSameForEveryNumberOfThreads) {
  std::mt19937_64 random(7);
  std::string text;
  Count edges = 0;
  for (; text.size() < 6'000'000; ++edges)
    text += std::to_string(random() % 100'000) + " " + std::to_string(random() % 100'000) + "\n";
  write_gzip(path_, text);
  const Graph one = read("snap", "", {.duplicates = EdgePolicy::keep, .num_threads = 1});
  EXPECT_EQ(one.structure.num_edges(), edges);
  const Graph three = read("snap", "", {.duplicates = EdgePolicy::keep, .num_threads = 3});
  EXPECT_EQ(one.structure.indices, three.structure.indices);
  EXPECT_EQ(one.structure.edge_ids, three.structure.edge_ids);
  const Graph renumbered = read("snap", ",ids=sparse", {.duplicates = EdgePolicy::keep, .num_threads = 2});
  EXPECT_EQ(renumbered.structure.num_edges(), edges);
  EXPECT_EQ(std::ranges::count(renumbered.node_names, '\n'), renumbered.num_nodes());
}

TEST_F(EdgeList, IsReadFromSeveralMembersOfGzip) {
  const auto member = [this](const std::string& text) {
    write_gzip(folder_ / "member.gz", text);
    return test::read_bytes(folder_ / "member.gz");
  };
  const std::string first = member("0 1\n1"), second = member(" 2\n");
  for (const std::string& packed :
       {first + second, first + std::string(600, '\0') + second + std::string(9, '\0')}) {
    write(packed);
    EXPECT_EQ(read("snap").structure.indices, (Ids{0, 1}));
  }
  std::string damaged = second;
  damaged[1] ^= 0x55;
  for (const std::string& packed : {first + damaged, first + "text", first.substr(0, first.size() - 1),
                                    first + second.substr(0, 5), std::string("\x1f\x8b")})
    refuse("snap", packed, {"graph.txt: damaged or truncated gzip file"});
}

TEST_F(EdgeList, IsReadFromZstd) {
  const std::string plain = (folder_ / "plain.csv").string();
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += std::to_string(i) + "," + std::to_string(i * 7 % 50'000) + "\n";
  write_text(plain, text);
  if (std::system(("zstd -q " + plain).c_str()) != 0)
    GTEST_SKIP() << "skipped: 1 of 1 cases: no zstd program";
  EXPECT_EQ(read_graph("csv:" + plain + ".zst").structure.indices,
            read_graph("csv:" + plain).structure.indices);
  const std::string packed = test::read_bytes(plain + ".zst");
  write(packed.substr(0, packed.size() / 2));
  expect_error([&] { read("csv"); }, {"graph.txt: damaged or truncated zstd file"});
  std::string damaged = packed;
  damaged[packed.size() / 2] ^= 0x55;
  damaged[packed.size() / 2 + 1] ^= 0x55;
  write(damaged);
  EXPECT_THROW(read("csv"), InputError);
}

TEST_F(Metis, IsReadWithAndWithoutWeights) {
  write("% a triangle and a node of its own\n4 3\n2 3\n1 3\n% in the middle\n1 2\n\n");
  const Graph graph = read("metis");
  EXPECT_EQ(graph.structure.indptr, (std::vector<Count>{0, 2, 4, 6, 6}));
  EXPECT_EQ(graph.structure.indices, (Ids{1, 2, 0, 2, 0, 1}));
  EXPECT_TRUE(graph.undirected);
  write("3 2 001\n2 5\n1 5 3 7\n2 7\n");
  EXPECT_EQ(read("metis").structure.weights, (std::vector<float>{5, 5, 7, 7}));
  write("3 2 111 2\n1 4 4 2 5\n1 4 4 1 5 3 7\n1 4 4 2 7\n");
  EXPECT_EQ(read("metis").structure.weights, (std::vector<float>{5, 5, 7, 7}));
  write("2 1 10\n3 2\n4 1\n\n\n");  // blank lines in the end
  EXPECT_EQ(read("metis").structure.indices, (Ids{1, 0}));
}

TEST_F(Metis, GivesNodesTheirWeights) {
  const auto weights = [&](const std::string& text) {
    write(text);
    const NodeWeights read_weights = read("metis").node_weights;
    return std::pair(read_weights.kinds, read_weights.values);
  };
  using Values = std::vector<std::int32_t>;
  EXPECT_EQ(weights("3 1\n2\n1\n\n"), std::pair(0, Values{}));
  EXPECT_EQ(weights("3 1 010\n7 2\n2147483647 1\n0\n\n\n"), std::pair(1, Values{7, 2147483647, 0}));
  EXPECT_EQ(weights("3 1 11\n7 2 4\n8 1 4\n9\n"), std::pair(1, Values{7, 8, 9}));
  EXPECT_EQ(weights("% sizes, too\n2 1 110 3\n9 1 2 3 2\n9 4 5 6 1\n"),
            std::pair(3, Values{1, 2, 3, 4, 5, 6}));
  refuse("metis", "3 1 10\n7 2\n\n7 1\n",
         {"graph.txt:3: a node without its 1 weights", "as the header says"});
  refuse("metis", "2 0 10 2\n1 2\n1\n", {"graph.txt:3: a node without its 2 weights"});
  refuse("metis", "2 1 10\n7 2\n2147483648 1\n",
         {"graph.txt:3", "2147483648 takes more than 31 bits", "Divide"});
  refuse("metis", "2 1 10\n7 2\n-1 1\n", {"graph.txt:3", "-1 is negative"});
  refuse("metis", "2 1 10 17\n7 2\n", {"graph.txt:1: 17 weights per node; at most 16"});
}

TEST_F(Metis, RefusesFilesThatContradictThemselves) {
  refuse("metis", "3 2\n2\n1 3\n", {"graph.txt: lines for 2 nodes, but the header states 3"});
  refuse("metis", "2 1\n2\n1\n1\n", {"graph.txt:4: a line for a further node"});
  refuse("metis", "2 2\n2\n1\n", {"2 neighbors, but the header states 2 edges"});
  refuse("metis", "2 3\n2\n1\n", {"2 neighbors, but the header states 3 edges"});
  refuse("metis", "2 1\n2\n0\n", {"graph.txt:3: neighbor 0 is not within [1, 2]", "at byte 6", "from 1"});
  refuse("metis", "2 1\n2\n3\n", {"graph.txt:3: neighbor 3"});
  refuse("metis", "2 1\n2\n1x\n", {"graph.txt:3: neighbor: '1x' is not an integer"});
  refuse("metis", "2 1 1\n2 1\n1\n", {"graph.txt:3: neighbor 1 has no weight"});
  refuse("metis", "2 1 012\n2\n1\n", {"graph.txt:1: '012' is not a code"});
  refuse("metis", "2 1 000 1\n2\n1\n", {"1 weights per node, but the code 000"});
  refuse("metis", "2\n2\n1\n", {"graph.txt:1: a header of 1 numbers"});
  refuse("metis", "% only\n", {"graph.txt: no header"});
  refuse("metis", "-2 1\n", {"nodes: -2 is negative"});
  refuse("metis", "3 1\n2\n3\n\n", {"listed at only one of their nodes", "--direction undirected"});
  EXPECT_EQ(read("metis", "", {.direction = Direction::undirected}).structure.num_edges(), 4);
  EXPECT_EQ(read("metis", "", {.direction = Direction::directed}).structure.num_edges(), 2);
}

TEST_F(MatrixMarket, IsReadInItsForms) {
  write("%%MatrixMarket matrix coordinate pattern symmetric\n% comment\n3 3 2\n2 1\n3 2\n");
  const Graph lower = read("mtx");
  EXPECT_TRUE(lower.undirected);
  EXPECT_EQ(lower.structure.indices, (Ids{1, 0, 2, 1}));
  EXPECT_TRUE(lower.structure.weights.empty());
  write("%%MatrixMarket Matrix Coordinate Real General\n3 3 2\n1 2 0.5\n3 2 2\n");
  const Graph general = read("mtx");
  EXPECT_EQ(general.structure.indptr, (std::vector<Count>{0, 0, 2, 2}));
  EXPECT_EQ(general.structure.indices, (Ids{0, 2}));
  EXPECT_EQ(general.structure.weights, (std::vector<float>{0.5, 2}));
  write("%%MatrixMarket matrix coordinate integer symmetric\n2 2 1\n2 1 -4\n");
  EXPECT_TRUE(read("mtx", ",values=ignore").structure.weights.empty());
  expect_error([&] { read("mtx"); }, {"graph.txt:3: value -4 cannot be the weight", "values=ignore"});
}

TEST_F(MatrixMarket, IsReadWithUnsignedIntegers) {
  write("%%MatrixMarket matrix coordinate unsigned-integer symmetric\n%\n3 3 2\n2 1 7\n3 3 1\n");
  const Graph graph = read("mtx");
  EXPECT_EQ(graph.structure.indices, (Ids{1, 0, 2}));
  EXPECT_EQ(graph.structure.weights, (std::vector<float>{7, 7, 1}));
}

TEST_F(MatrixMarket, RefusesOtherFiles) {
  const std::string banner = "%%MatrixMarket matrix coordinate pattern general\n";
  refuse("mtx", "2 2 1\n1 1\n", {"graph.txt:1: not the first line of a Matrix Market file"});
  refuse("mtx", "%%MatrixMarket matrix array real general\n", {"format 'array'", "coordinate"});
  refuse("mtx", "%%MatrixMarket matrix coordinate complex general\n", {"'complex' is not read"});
  refuse("mtx", "%%MatrixMarket matrix coordinate real skew-symmetric\n", {"'skew-symmetric' is not read"});
  refuse("mtx", banner + "2 3 1\n1 1\n", {"2 rows and 3 columns"});
  refuse("mtx", banner + "2 2\n1 1\n",
         {"graph.txt:2: not the line of sizes", fmt::format("at byte {}", banner.size())});
  refuse("mtx", banner, {"no line of sizes"});
  refuse("mtx", banner + "2 2 2\n1 1\n", {"1 entries, but 2 are stated"});
  refuse("mtx", banner + "2 2 1\n0 1\n", {"graph.txt:3: row 0 is not within [1, 2]", "from 1"});
  refuse("mtx", banner + "2 2 1\n1 3\n", {"graph.txt:3: column 3"});
  refuse("mtx", banner + "2 2 1\n1\n", {"graph.txt:3: no column"});
  refuse("mtx", banner + "2 2 1\n1 2 3\n", {"more numbers than an entry has"});
}

/// METIS graphs of the Walshaw archive and others: every file is symmetric, and as large as its header says.
TEST(RealMetisGraphs, AreReadWhole) {
  const auto folder = test::data_folder() / "partition_graphs" / "metis";
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << "skipped: 1 of 1 cases: no " << folder;
  int read = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const Graph graph = read_graph("metis:" + entry.path().string());
    EXPECT_TRUE(graph.undirected) << entry.path();
    EXPECT_EQ(graph.cleaning.duplicates + graph.cleaning.self_loops, 0) << entry.path();
    ++read;
  }
  EXPECT_GT(read, 0);
}

TEST(RealEdgeLists, AreReadWhole) {
  const auto folder = test::data_folder() / "partition_graphs" / "edgelists";
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << "skipped: 1 of 1 cases: no " << folder;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const Graph graph = read_graph("snap:" + entry.path().string(), {.direction = Direction::undirected});
    EXPECT_GT(graph.structure.num_edges(), 0) << entry.path();
    EXPECT_TRUE(graph.undirected) << entry.path();
  }
}

}  // namespace
}  // namespace strata::graph
