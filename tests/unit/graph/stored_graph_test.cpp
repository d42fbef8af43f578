// SPDX-License-Identifier: Apache-2.0
#include "strata/graph/stored_graph.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <utility>

#include "build_csc.hpp"
#include "stored_lists.hpp"
#include "strata/graph/input_stamp.hpp"
#include "strata/graph/npy.hpp"
#include "strata/util/random.hpp"
#include "support/dataset_files.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace strata::graph {
namespace {

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
    expected[static_cast<std::size_t>(ids[2 * e])].insert(ids[2 * e + 1]);
    expected[static_cast<std::size_t>(ids[2 * e + 1])].insert(ids[2 * e]);
  }
  const StoredLists neighbors = neighbors_of(lists.indptr, lists.indices, scratch_, pool);
  ASSERT_FALSE(neighbors.indices.wide);
  for (std::size_t v = 0; v < 300; ++v) {
    std::vector<std::int64_t> got;
    for (Count e = neighbors.indptr[v]; e < neighbors.indptr[v + 1]; ++e) got.push_back(neighbors.indices[e]);
    EXPECT_EQ(got, std::vector<std::int64_t>(expected[v].begin(), expected[v].end())) << "node " << v;
  }
}

class StoredGraphTest : public StoredListsTest {
 protected:
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
    const InputSize size = measure_input(source);
    EXPECT_TRUE(size.streams) << spec;
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

TEST_F(StoredGraphTest, HasNoListsWhereTheInputIsReadAsAWhole) {
  const Source source("synthetic:kind=sbm,nodes=100,degree=4,features=2");
  EXPECT_FALSE(read_stored_graph(source, {}, {}, scratch_).lists);
  EXPECT_FALSE(measure_input(source).streams);
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

}  // namespace
}  // namespace strata::graph
