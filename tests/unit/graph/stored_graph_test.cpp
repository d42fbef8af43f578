// SPDX-License-Identifier: Apache-2.0
#include "strata/graph/stored_graph.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <utility>

#include "build_csc.hpp"
#include "stored_lists.hpp"
#include "strata/graph/npy.hpp"
#include "strata/graph/read_graph.hpp"
#include "strata/util/random.hpp"
#include "support/dataset_files.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace strata::graph {
namespace {

using test::npy_bytes;
using test::write_text;

constexpr std::int64_t kRoom = 64 << 20;

std::vector<std::int64_t> all_of(IdSpan ids) {
  std::vector<std::int64_t> result;
  for (Count i = 0; i < ids.size; ++i) result.push_back(ids[i]);
  return result;
}

void expect_same(const CscGraph& expected, const StoredLists& got, const std::string& what) {
  EXPECT_EQ(got.indptr, expected.indptr) << what;
  EXPECT_EQ(all_of(got.indices), expected.indices) << what;
  EXPECT_EQ(all_of(got.edge_ids), expected.edge_ids) << what;
  const auto weights = got.weights.span();
  EXPECT_EQ(std::vector<float>(weights.begin(), weights.end()), expected.weights) << what;
}

std::vector<std::int64_t> random_pairs(Count edges, Count nodes, std::uint64_t seed) {
  std::vector<std::int64_t> ids;
  for (Count e = 0; e < edges; ++e) {
    const std::uint64_t word = mix64(seed * 1'000'003 + static_cast<std::uint64_t>(e));
    const auto source = static_cast<std::int64_t>(word % static_cast<std::uint64_t>(nodes));
    ids.push_back(source);
    ids.push_back((word >> 40) % 16 == 0
                      ? source
                      : static_cast<std::int64_t>(mix64(word) % static_cast<std::uint64_t>(nodes)));
  }
  return ids;
}

std::vector<float> random_weights(Count count) {
  std::vector<float> weights;
  for (Count i = 0; i < count; ++i)
    weights.push_back(static_cast<float>(mix64(static_cast<std::uint64_t>(i)) % 4096) / 64);
  return weights;
}

class StoredListsTest : public testing::Test {
 protected:
  test::TemporaryFolder folder_;
  ScratchStore scratch_{folder_.path(), kRoom};
};

TEST_F(StoredListsTest, EqualThoseInMemoryForEveryPolicyAndNumberOfThreads) {
  const std::vector<std::int64_t> wide = random_pairs(200'000, 3000, 7);
  const std::vector<std::int32_t> narrow(wide.begin(), wide.end());
  for (const int policies : {0, 1, 2, 3, 4, 5, 6, 7}) {
    const CscOptions options{.duplicates = (policies & 1) != 0 ? EdgePolicy::keep : EdgePolicy::remove,
                             .self_loops = (policies & 2) != 0 ? EdgePolicy::keep : EdgePolicy::remove,
                             .add_reverse = (policies & 4) != 0};
    ThreadPool one(1);
    const EdgeList list{.sources = wide.data(),
                        .destinations = wide.data() + 1,
                        .count = std::ssize(wide) / 2,
                        .stride = 2,
                        .origin = "edges"};
    EdgeList small = list;
    small.sources = narrow.data();
    small.destinations = narrow.data() + 1;
    small.wide = false;
    const BuiltCsc expected = build_csc(3100, list, options, one);
    for (const int threads : {1, 3}) {
      ThreadPool pool(threads);
      for (const EdgeList* const edges : {&list, &std::as_const(small)}) {
        const BuiltLists got = build_stored_lists(3100, *edges, options, scratch_, pool);
        expect_same(expected.structure, got.lists, fmt::format("policies {}", policies));
        EXPECT_EQ(got.symmetric, is_symmetric(expected.structure, one));
        EXPECT_EQ(got.cleaning.duplicates, expected.cleaning.duplicates);
        EXPECT_EQ(got.cleaning.self_loops, expected.cleaning.self_loops);
        EXPECT_EQ(got.cleaning.duplicates_removed, expected.cleaning.duplicates_removed);
        EXPECT_EQ(got.cleaning.self_loops_removed, expected.cleaning.self_loops_removed);
        EXPECT_EQ(got.cleaning.reverse_added, expected.cleaning.reverse_added);
      }
    }
  }
}

TEST_F(StoredListsTest, RefuseIdsThatAreNoNodesAndNodesThatFillTheBuffers) {
  ThreadPool pool(2);
  std::vector<std::int64_t> ids{0, 1, 1, 9};
  EdgeList list{
      .sources = ids.data(), .destinations = ids.data() + 1, .count = 2, .stride = 2, .origin = "f"};
  test::expect_error<InputError>([&] { build_stored_lists(5, list, {}, scratch_, pool); },
                                 {"f: edge 1 goes from 1 to 9", "[0, 5)"});
  ids.assign(2'000'000, 0);
  list = {
      .sources = ids.data(), .destinations = ids.data() + 1, .count = 1'000'000, .stride = 2, .origin = "f"};
  ScratchStore small(folder_.path(), 16 << 20);
  test::expect_error<OutOfMemory>([&] { build_stored_lists(5, list, {}, small, pool); },
                                  {"1,000,000 edges of nodes 0 to 0", "--memory"});
}

TEST_F(StoredListsTest, GiveEveryPairOfNeighborsOnceInEachDirection) {
  ThreadPool pool(2);
  const std::vector<std::int64_t> ids = random_pairs(5000, 300, 3);
  const EdgeList list{
      .sources = ids.data(), .destinations = ids.data() + 1, .count = 5000, .stride = 2, .origin = "edges"};
  const StoredLists lists = build_stored_lists(300, list, {}, scratch_, pool).lists;
  std::vector<std::set<std::int64_t>> expected(300);
  for (std::size_t e = 0; e < 5000; ++e) {
    if (ids[2 * e] == ids[2 * e + 1]) continue;
    expected[at(ids[2 * e])].insert(ids[2 * e + 1]);
    expected[at(ids[2 * e + 1])].insert(ids[2 * e]);
  }
  const StoredLists both =
      build_stored_lists(300, list, {.duplicates = EdgePolicy::keep, .add_reverse = true}, scratch_, pool)
          .lists;
  const auto* const ids_of_both = static_cast<const std::int32_t*>(both.indices.data);
  for (const StoredLists& neighbors : {neighbors_of(lists.indptr, lists.indices, scratch_, pool),
                                       neighbors_of_symmetric(both.indptr, ids_of_both, scratch_, pool)}) {
    ASSERT_FALSE(neighbors.indices.wide);
    for (std::size_t v = 0; v < 300; ++v) {
      std::vector<std::int64_t> got;
      for (Count e = neighbors.indptr[v]; e < neighbors.indptr[v + 1]; ++e)
        got.push_back(neighbors.indices[e]);
      EXPECT_EQ(got, std::vector<std::int64_t>(expected[v].begin(), expected[v].end())) << "node " << v;
    }
  }
}

class StoredGraphTest : public StoredListsTest {
 protected:
  static std::string bytes_of(const FeatureTable& features) {
    const auto bytes = at(features.rows) * features.row_bytes();
    return {reinterpret_cast<const char*>(features.data), bytes};
  }
  void expect_equal(const std::string& spec, const ReadOptions& options = {}) {
    const Source source(spec);
    const Graph expected = read_graph(source, options);
    const StoredGraph got = read_stored_graph(source, options, {}, scratch_);
    ASSERT_TRUE(got.lists) << spec;
    expect_same(expected.structure, *got.lists, spec);
    EXPECT_EQ(got.graph.num_nodes(), expected.num_nodes()) << spec;
    EXPECT_EQ(got.graph.undirected, expected.undirected) << spec;
    EXPECT_EQ(got.graph.labels, expected.labels) << spec;
    EXPECT_EQ(got.graph.splits.train, expected.splits.train) << spec;
    EXPECT_EQ(got.graph.node_names, expected.node_names) << spec;
    EXPECT_EQ(got.graph.features.rows, expected.features.rows) << spec;
    EXPECT_EQ(bytes_of(got.graph.features), bytes_of(expected.features)) << spec;
    const InputSize size = measure_input(source);
    EXPECT_GE(size.edges, expected.cleaning.edges_read) << spec;
  }
};

TEST_F(StoredGraphTest, EqualsTheOneInMemoryForListsOfEdges) {
  const std::string file = (folder_ / "edges.csv").string();
  write_text(file, "0,1,0.5\n1,2,0.25\n2,0,3\n2,2,1\n0,1,7\n");
  expect_equal("csv:" + file);
  expect_equal("csv:" + file, {.direction = ReadOptions::Direction::undirected});
  expect_equal("csv:" + file + ",weight=2");
  write_text(file, "9000000000000 -5\n7 9000000000000\n-5 7\n");
  expect_equal("csv:" + file + ",ids=sparse");
  write_text(file, "b,a\nb,c\n");
  expect_equal("csv:" + file + ",ids=string");
  std::string text = "# Undirected graph\n";
  const std::vector<std::int64_t> ids = random_pairs(100'000, 5000, 5);
  for (std::size_t e = 0; e < 100'000; ++e) text += fmt::format("{}\t{}\n", ids[2 * e], ids[2 * e + 1]);
  write_text(file, text);
  expect_equal("snap:" + file);
}

TEST_F(StoredGraphTest, EqualsTheOneInMemoryForMetisAndMatrixMarket) {
  const std::string file = (folder_ / "graph").string();
  write_text(file, "3 2 001\n2 5\n1 5 3 7\n2 7\n");
  expect_equal("metis:" + file);
  write_text(file, "%%MatrixMarket matrix coordinate real symmetric\n4 4 3\n2 1 0.5\n3 2 2\n4 4 1\n");
  expect_equal("mtx:" + file);
}

TEST_F(StoredGraphTest, EqualsTheOneInMemoryForArrays) {
  const std::vector<std::int64_t> ids = random_pairs(3000, 200, 9);
  std::filesystem::create_directory(folder_ / "pairs");
  write_npy(folder_ / "pairs/edge_index.npy", DType::i64, {2, 3000}, ids.data());
  write_npy(folder_ / "pairs/edge_weight.npy", DType::f32, {3000}, std::vector<float>(3000, 0.5f).data());
  expect_equal("npy:" + (folder_ / "pairs").string());
  const std::vector<std::int32_t> indices{1, 2, 0, 1}, labels{0, 1, 1};
  const std::vector<std::int64_t> indptr{0, 2, 3, 4}, train{0, 2};
  std::filesystem::create_directory(folder_ / "lists");
  write_npy(folder_ / "lists/indptr.npy", DType::i64, {4}, indptr.data());
  write_npy(folder_ / "lists/indices.npy", DType::i32, {4}, indices.data());
  write_npy(folder_ / "lists/y.npy", DType::i32, {3}, labels.data());
  write_npy(folder_ / "lists/x.npy", DType::f32, {3, 2}, std::vector<float>(6, 1.5f).data());
  write_npy(folder_ / "lists/train.npy", DType::i64, {2}, train.data());
  expect_equal("npy:" + (folder_ / "lists").string());
}

// A third of the edges are listed twice, with other weights.
TEST_F(StoredGraphTest, EqualsTheOneInMemoryWithWeightsOfEveryType) {
  constexpr Count kEdges = 150'000;
  const std::string spec = "npy:" + folder_.path().string();
  std::vector<std::int64_t> ids = random_pairs(kEdges / 2, 3000, 11),
                            other = random_pairs(kEdges / 2, 300, 4);
  ids.insert(ids.end(), other.begin(), other.end());
  const std::vector<float> narrow = random_weights(kEdges);
  const std::vector<double> wide(narrow.begin(), narrow.end());
  write_npy(folder_ / "edge_index.npy", DType::i64, {2, kEdges}, ids.data());
  write_npy(folder_ / "edge_weight.npy", DType::f32, {kEdges}, narrow.data());
  for (const auto direction : {ReadOptions::Direction::automatic, ReadOptions::Direction::undirected})
    for (const EdgePolicy duplicates : {EdgePolicy::remove, EdgePolicy::keep})
      expect_equal(spec, {.duplicates = duplicates, .direction = direction});
  write_npy(folder_ / "edge_weight.npy", DType::f64, {kEdges}, wide.data());
  expect_equal(spec);
  write_npy(folder_ / "edge_weight.npy", DType::f32, {2}, ids.data());
  test::expect_error<InputError>([&] { read_stored_graph(Source(spec), {}, {}, scratch_); },
                                 {"edge_weight.npy: 2 weights for 150000 edges"});
}

// Members of an archive begin at any byte, so stored ones may have to be copied, too.
TEST_F(StoredGraphTest, EqualsTheOneInMemoryForSparseMatrices) {
  constexpr Count kEntries = 120'000, kNodes = 4000;
  const std::vector<std::int64_t> ids = random_pairs(kEntries, kNodes, 21);
  std::vector<std::int32_t> rows, cols;
  std::vector<std::int64_t> indptr(kNodes + 1);
  for (std::size_t e = 0; e < kEntries; ++e) {
    rows.push_back(static_cast<std::int32_t>(ids[2 * e]));
    cols.push_back(static_cast<std::int32_t>(ids[2 * e + 1]));
  }
  for (std::size_t v = 0; v <= kNodes; ++v) indptr[v] = static_cast<Count>(v) * kEntries / kNodes;
  const std::string shape = fmt::format("({},)", kEntries);
  for (const bool deflated : {false, true})
    for (const bool ones : {false, true})
      for (const std::string format : {"csr", "csc", "coo"}) {
        const std::vector<float> values = ones ? std::vector<float>(kEntries, 1) : random_weights(kEntries);
        test::ZipWriter zip;
        zip.add({.name = "format.npy", .contents = npy_bytes("|S3", "()", format.data(), 3)});
        zip.add({.name = "shape.npy", .contents = npy_bytes<std::int64_t>("<i8", "(2,)", {kNodes, kNodes})});
        zip.add({.name = "data.npy", .contents = npy_bytes("<f4", shape, values), .deflated = deflated});
        const bool triples = format == "coo";
        if (triples)
          zip.add({.name = "row.npy", .contents = npy_bytes("<i4", shape, rows), .deflated = deflated});
        else
          zip.add({.name = "indptr.npy",
                   .contents = npy_bytes("<i8", fmt::format("({},)", kNodes + 1), indptr),
                   .deflated = deflated});
        zip.add({.name = triples ? "col.npy" : "indices.npy",
                 .contents = npy_bytes("<i4", shape, cols),
                 .deflated = deflated});
        const std::filesystem::path path = folder_ / fmt::format("{}{}{}.npz", format, deflated, ones);
        write_text(path, zip.finish());
        expect_equal("npy:" + path.string());
        std::string damaged = zip.finish();
        damaged[damaged.size() / 2] ^= 4;
        write_text(path, damaged);
        test::expect_error<InputError>(
            [&] { read_stored_graph(Source("npy:" + path.string()), {}, {}, scratch_); },
            {path.filename().string(), "damaged"});
      }
}

TEST_F(StoredGraphTest, EqualsTheOneInMemoryForTheLayoutsOfOgb) {
  constexpr Count kEdges = 50'000, kNodes = 2000;
  const std::vector<std::int64_t> ids = random_pairs(kEdges, kNodes, 31);
  const std::vector<float> weights = random_weights(kEdges);
  std::string edges, features, rows;
  std::vector<std::int64_t> by_row(ids.size());
  for (std::size_t e = 0; e < kEdges; ++e) {
    edges += fmt::format("{},{}\n", ids[2 * e], ids[2 * e + 1]);
    features += fmt::format("0,{}\n", weights[e]);
    by_row[e] = ids[2 * e];
    by_row[kEdges + e] = ids[2 * e + 1];
  }
  for (Count v = 0; v < kNodes; ++v) rows += fmt::format("{},{}.5,-1\n", v, v % 7);
  const std::filesystem::path text = folder_ / "text", binary = folder_ / "binary";
  test::write_gzip(text / "raw/edge.csv.gz", edges);
  test::write_gzip(text / "raw/edge-feat.csv.gz", features);
  test::write_gzip(text / "raw/node-feat.csv.gz", rows);
  test::write_gzip(text / "raw/num-node-list.csv.gz", "2000\n");
  test::write_gzip(text / "raw/num-edge-list.csv.gz", "50000\n");
  for (const std::string keys : {"", ",weight=1"}) {
    expect_equal("ogb:" + text.string() + keys);
    expect_equal("ogb:" + text.string() + keys, {.direction = ReadOptions::Direction::directed});
  }
  test::ZipWriter zip;
  zip.add({.name = "num_nodes_list.npy", .contents = npy_bytes<std::int64_t>("<i8", "(1,)", {kNodes})});
  zip.add({.name = "edge_index.npy",
           .contents = npy_bytes("<i8", fmt::format("(2, {})", kEdges), by_row),
           .deflated = true});
  zip.add({.name = "edge_feat.npy", .contents = npy_bytes("<f4", fmt::format("({}, 1)", kEdges), weights)});
  zip.add({.name = "node_feat.npy",
           .contents = npy_bytes("<f4", fmt::format("({}, 3)", kNodes), random_weights(3 * kNodes)),
           .deflated = true});
  write_text(binary / "raw/data.npz", zip.finish());
  expect_equal("ogb:" + binary.string());
  expect_equal("ogb:" + binary.string() + ",weight=0");
  test::write_gzip(text / "raw/num-edge-list.csv.gz", "50001\n");
  test::expect_error<InputError>([&] { read_stored_graph(Source("ogb:" + text.string()), {}, {}, scratch_); },
                                 {"edge.csv.gz: 50,000 lines, but num-edge-list states 50,001"});
}

TEST_F(StoredGraphTest, EqualsTheOneInMemoryForGraphboltAndChunksOfDgl) {
  constexpr Count kEdges = 40'000;
  const std::vector<std::int64_t> ids = random_pairs(kEdges, 1000, 41);
  const std::vector<std::uint32_t> unsigned_ids(ids.begin(), ids.end());
  const std::vector<float> weights = random_weights(kEdges);
  std::string edges;
  for (std::size_t e = 0; e < kEdges; ++e) edges += fmt::format("{},{}\n", ids[2 * e], ids[2 * e + 1]);
  const std::vector<double> features(2000, 0.25);
  write_text(folder_ / "edges.csv", edges);
  write_text(folder_ / "pairs.npy", npy_bytes("<u4", "(40000, 2)", unsigned_ids));
  write_npy(folder_ / "weight.npy", DType::f32, {kEdges}, weights.data());
  write_npy(folder_ / "feat.npy", DType::f64, {1000, 2}, features.data());
  for (const std::string format : {"csv", "numpy"}) {
    write_text(folder_ / "metadata.yaml",
               fmt::format("graph:\n  nodes:\n    - num: 1000\n  edges:\n    - {{format: {}, path: {}}}\n"
                           "  feature_data:\n    - {{domain: edge, name: weight, format: numpy, path: "
                           "weight.npy}}\n"
                           "feature_data:\n  - {{domain: node, name: feat, format: numpy, path: feat.npy}}\n",
                           format, format == "csv" ? "edges.csv" : "pairs.npy"));
    expect_equal("graphbolt:" + folder_.path().string());
    expect_equal("graphbolt:" + folder_.path().string(), {.direction = ReadOptions::Direction::undirected});
    expect_equal("graphbolt:" + folder_.path().string(), {.normalize_features = true});
  }
  const std::filesystem::path dgl = folder_ / "dgl";
  std::filesystem::create_directory(dgl);
  write_npy(dgl / "e0.npy", DType::i64, {15'000, 2}, ids.data());
  write_npy(dgl / "e1.npy", DType::i64, {25'000, 2}, ids.data() + 30'000);
  write_npy(dgl / "w0.npy", DType::f32, {30'000}, weights.data());
  write_npy(dgl / "w1.npy", DType::f32, {10'000}, weights.data() + 30'000);
  write_text(dgl / "metadata.json",
             R"({"graph_name": "g", "node_type": ["n"], "num_nodes_per_chunk": [[1000]],
    "edge_type": ["n:to:n"], "num_edges_per_chunk": [[15000, 25000]],
    "edges": {"n:to:n": {"format": {"name": "numpy"}, "data": ["e0.npy", "e1.npy"]}},
    "edge_data": {"n:to:n": {"weight": {"format": {"name": "numpy"}, "data": ["w0.npy", "w1.npy"]}}}})");
  expect_equal("dgl:" + dgl.string());
}

TEST_F(StoredGraphTest, EqualsTheOneInMemoryForGeneratedGraphs) {
  const std::string shape = ",nodes=5000,features=3,seed=4";
  for (const char* const kind : {"sbm,degree=9", "rmat,degree=9", "lognormal,degree=9", "grid"}) {
    const std::string spec = std::string("synthetic:kind=") + kind + shape;
    expect_equal(spec, {.normalize_features = true});
    expect_equal(spec + ",weights=uniform,dtype=bf16", {.self_loops = EdgePolicy::remove});
  }
  for (const char* const kind : {"sbm", "rmat"})
    expect_equal(std::string("synthetic:dtype=f16,kind=") + kind + shape,
                 {.duplicates = EdgePolicy::keep, .direction = ReadOptions::Direction::directed});
  expect_equal("planted:nodes=3000,degree=6,features=2,parts=3", {.normalize_features = true});
}

TEST(InputStamps, NoticeFilesThatChangeOrGo) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directory(folder / "set");
  write_text(folder / "set/edge_index.npy", "a");
  write_text(folder / "x.npy", "a");
  const InputStamp stamp(Source("npy:" + (folder / "set").string()), {.features = folder / "x.npy"});
  stamp.require_unchanged();
  write_text(folder / "x.npy", "ab");
  test::expect_error<InputError>([&] { stamp.require_unchanged(); }, {"x.npy changed while it was read"});
  write_text(folder / "x.npy", "a");
  std::filesystem::last_write_time(folder / "x.npy",
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  test::expect_error<InputError>([&] { stamp.require_unchanged(); }, {"x.npy changed"});
  const InputStamp other(Source("npy:" + (folder / "set").string()));
  std::filesystem::remove(folder / "set/edge_index.npy");
  test::expect_error<InputError>([&] { other.require_unchanged(); }, {"edge_index.npy went away"});
  InputStamp(Source("synthetic:nodes=10")).require_unchanged();
}

TEST(InputStamps, NoticeWhatChangesBehindLinks) {
  const test::TemporaryFolder folder;
  namespace fs = std::filesystem;
  for (const char* const name : {"set", "elsewhere", "a"}) fs::create_directory(folder / name);
  write_text(folder / "set/metadata.yaml", "{a: [{path: data/labels.csv}, {path: edges.npy}]}");
  write_text(folder / "elsewhere/labels.csv", "a");
  fs::create_directory_symlink(folder / "elsewhere", folder / "set/data");
  const Source source("graphbolt:" + (folder / "set").string());
  const InputStamp below(source);
  below.require_unchanged();
  write_text(folder / "elsewhere/labels.csv", "ab");
  test::expect_error<InputError>([&] { below.require_unchanged(); }, {"set/data/labels.csv changed"});

  // The link leads to another file of the same size and age.
  for (const char* const name : {"one", "two"}) write_text(folder / "a" / name, name);
  fs::last_write_time(folder / "a/two", fs::last_write_time(folder / "a/one"));
  fs::create_symlink(folder / "a/one", folder / "set/edges.npy");
  const InputStamp linked(source);
  linked.require_unchanged();
  fs::remove(folder / "set/edges.npy");
  fs::create_symlink(folder / "a/two", folder / "set/edges.npy");
  test::expect_error<InputError>([&] { linked.require_unchanged(); }, {"set/edges.npy changed"});
}

struct StampedFormat {
  const char* prefix;
  std::vector<std::string> read, other;
};

TEST(InputStamps, NoticeFilesThatAreReadAndNoneBesideThem) {
  const std::vector<StampedFormat> formats{
      {"npy:", {"edge_index.npy", "num_nodes.npy", "x.npy", "val.npy"}, {"build.log", "old.npy"}},
      {"ogb:",
       {"raw/edge.csv.gz", "raw/num-node-list.csv", "raw/node-label.npz", "split/time/valid.csv.gz"},
       {"raw/build.log", "split/time/notes.csv", "mapping/labels.csv.gz"}},
      {"igb:",
       {"processed/paper/node_feat.npy", "processed/paper/node_label_2K.npy",
        "processed/paper__cites__paper/edge_index.npy"},
       {"processed/paper/info.txt", "processed/log"}},
      {"graphbolt:", {"metadata.yaml", "data/edges.npy", "data/feat.npy"}, {"data/log", "metadata.json"}},
      {"dgl:", {"metadata.json", "data/edges.npy", "data/feat.npy"}, {"data/log", "metadata.yaml"}},
      {"parquet:", {"edges-0.parquet", "edges-1.parquet", "nodes.parquet"}, {"other.parquet", "log"}},
      {"", {"manifest.json", "part-00000.h5", "part-00001.h5"}, {"train.log", "part-00007.h5", "old.h5"}}};
  for (const StampedFormat& format : formats) {
    const test::TemporaryFolder folder;
    const auto write = [&](const std::string& file, const std::string& text) {
      std::filesystem::create_directories((folder / file).parent_path());
      write_text(folder / file, text);
    };
    for (const auto* files : {&format.read, &format.other})
      for (const std::string& file : *files)
        write(file, file.starts_with("metadata.") ? R"({"a": [{"path": "data/edges.npy"}, "data/feat.npy"]})"
                                                  : "a");
    const Source source(format.prefix + folder.path().string());
    const InputStamp stamp(source);
    for (const std::string& file : format.other) write(file, "another text");
    for (const char* const file : {"run.log", "parts/.out.partial-a/part-00000.h5"}) write(file, "new");
    EXPECT_NO_THROW(stamp.require_unchanged()) << format.prefix;
    for (const std::string& file : format.read) {
      const InputStamp before(source);
      std::filesystem::last_write_time(
          folder / file, std::filesystem::last_write_time(folder / file) - std::chrono::hours(1));
      test::expect_error<InputError>([&] { before.require_unchanged(); },
                                     {file, "changed while it was read"});
    }
  }
}

TEST(InputStamps, EndForMetadataWithoutEnd) {
  const test::TemporaryFolder folder;
  write_text(folder / "edges.npy", "a");
  write_text(folder / "metadata.yaml", "first: edges.npy\na: &a\n  b: *a\n  c: [*a, *a, *a]\n");
  const InputStamp stamp(Source("graphbolt:" + folder.path().string()));
  write_text(folder / "edges.npy", "ab");
  test::expect_error<InputError>([&] { stamp.require_unchanged(); }, {"edges.npy changed"});
}

TEST(InputStamps, LookAtTheFileOfParts) {
  const test::TemporaryFolder folder;
  write_text(folder / "parts.txt", "0\n1\n");
  const InputStamp stamp(Source("synthetic:nodes=2"), {}, folder / "parts.txt");
  stamp.require_unchanged();
  write_text(folder / "parts.txt", "0\n1\n1\n");
  test::expect_error<InputError>([&] { stamp.require_unchanged(); }, {"parts.txt changed while it was read"});
}

}  // namespace
}  // namespace strata::graph
