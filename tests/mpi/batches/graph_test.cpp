// SPDX-License-Identifier: Apache-2.0
#include "strata/batches/graph.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <vector>

#include "loader_setup.hpp"
#include "strata/util/error.hpp"
#include "support/expect_error.hpp"

namespace strata::batches {
namespace {

using test::LoaderSetup;

class LoadedGraph : public testing::TestWithParam<int> {
 protected:
  std::vector<NodeId> original_ids(std::span<const NodeId> nodes) const {
    std::vector<NodeId> ids;
    for (const NodeId node : nodes) ids.push_back(setup_.graph->stored().host_view().original_ids[node]);
    return ids;
  }
  LoaderSetup setup_{GetParam()};
};

TEST_P(LoadedGraph, HasTheNodesOfEverySplitInTheOrderOfTheInput) {
  const graph::Splits& splits = setup_.dataset->splits;
  EXPECT_EQ(original_ids(setup_.graph->nodes_of(Split::train)), splits.train);
  EXPECT_EQ(original_ids(setup_.graph->nodes_of(Split::valid)), splits.valid);
  EXPECT_EQ(original_ids(setup_.graph->nodes_of(Split::test)), splits.test);
  EXPECT_EQ(original_ids(setup_.graph->nodes_of(Split::test)), splits.test) << "asked again";
}

TEST_P(LoadedGraph, NamesASplitOnOneRankOnly) {
  if (test::world().rank() != test::world().size() - 1) return;
  EXPECT_EQ(original_ids(setup_.graph->nodes_of(Split::valid)), setup_.dataset->splits.valid);
}

TEST_P(LoadedGraph, SaysThatPartsHaveOtherNumbersThanTheInput) { EXPECT_TRUE(setup_.graph->is_renumbered()); }

TEST_P(LoadedGraph, GathersRowsOfAnyNodes) {
  const std::vector<float> all = test::features_as_floats(*setup_.dataset);
  std::vector<NodeId> ids{899, 0, 417, 417, 3};
  if (test::world().rank() == 1) ids.clear();
  std::vector<float> rows(ids.size() * LoaderSetup::kCols, -77);
  setup_.graph->gather_features(ids.data(), std::ssize(ids), rows.data(), {});
  std::vector<float> expected;
  for (const NodeId id : original_ids(ids))
    expected.insert(expected.end(), all.begin() + id * LoaderSetup::kCols,
                    all.begin() + (id + 1) * LoaderSetup::kCols);
  EXPECT_EQ(rows, expected);
}

TEST_P(LoadedGraph, WritesRowsOfAnyMachineForAllReaders) {
  const int rank = test::world().rank(), ranks = test::world().size();
  std::vector<NodeId> ids{899, 3, 899, 450, 20 + rank};  // of which other ranks write all but the last, too
  if (rank == 1) ids.clear();
  std::vector<float> rows;
  for (std::size_t i = 0; i < ids.size(); ++i)
    rows.insert(rows.end(), LoaderSetup::kCols, static_cast<float>(100 * rank + static_cast<int>(i)));
  setup_.graph->write_features(ids.data(), std::ssize(ids), reinterpret_cast<const std::byte*>(rows.data()),
                               {});
  const float last = 100.F * static_cast<float>(ranks == 2 ? 0 : ranks - 1);
  const std::vector<NodeId> read{899, 3, 450, 20, 21, 418};
  const NodeId untouched = original_ids({&read[5], 1}).front();
  const NodeId of_rank_1 = original_ids({&read[4], 1}).front();
  const std::vector<float> all = test::features_as_floats(*setup_.dataset);
  std::vector<float> now(read.size() * LoaderSetup::kCols);
  setup_.graph->gather_features(read.data(), std::ssize(read), now.data(), {});
  const std::vector<float> wanted{last + 2,
                                  last + 1,
                                  last + 3,
                                  4,
                                  all[at(of_rank_1 * LoaderSetup::kCols)],
                                  all[at(untouched * LoaderSetup::kCols)]};
  for (std::size_t i = 0; i < read.size(); ++i) EXPECT_EQ(now[i * LoaderSetup::kCols], wanted[i]) << read[i];
}

TEST_P(LoadedGraph, WritesNothingIfOneRankNamesNoNode) {
  const std::vector<NodeId> ids{test::world().rank() == 0 ? 900 : 4};
  const std::vector<float> rows(LoaderSetup::kCols, -5);
  const auto write = [&] {
    setup_.graph->write_features(ids.data(), 1, reinterpret_cast<const std::byte*>(rows.data()), {});
  };
  if (test::world().rank() == 0)
    EXPECT_THROW(write(), std::out_of_range);
  else
    EXPECT_THROW(write(), InputError);
  std::vector<float> now(LoaderSetup::kCols);
  const std::vector<NodeId> read{4};
  setup_.graph->gather_features(read.data(), 1, now.data(), {});
  EXPECT_NE(now[0], -5);
}

TEST_P(LoadedGraph, NamesNodesAsTheInputDidAndBack) {
  const std::vector<NodeId> ids{899, 0, 417, 417};
  std::vector<NodeId> original(ids.size()), back(ids.size());
  setup_.graph->original_ids(ids, original.data());
  EXPECT_EQ(original, original_ids(ids));
  setup_.graph->global_ids(original, back.data());
  EXPECT_EQ(back, ids);
  const std::vector<NodeId> wrong{3, 900};
  EXPECT_THROW(setup_.graph->original_ids(wrong, back.data()), std::out_of_range);
  EXPECT_THROW(setup_.graph->global_ids(wrong, back.data()), std::out_of_range);
}

TEST_P(LoadedGraph, NamesTheFirstIdThatIsNoNodes) {
  const std::vector<NodeId> ids{5, 900, -1};
  std::vector<float> rows(ids.size() * LoaderSetup::kCols);
  try {
    setup_.graph->gather_features(ids.data(), std::ssize(ids), rows.data(), {});
    FAIL() << "id 900 was taken";
  } catch (const std::out_of_range& error) {
    EXPECT_STREQ(error.what(), "index 1 is 900, which is not a node of the graph (0 to 899)");
  }
}

TEST_P(LoadedGraph, GivesInEdgesOfTheNodesThatAreHere) {
  const graph::CscGraph& csc = setup_.dataset->structure;
  const store::GraphView& view = setup_.graph->stored().host_lists();
  const std::vector<NodeId> nodes{899, 0, 417, 417};
  const Graph::InEdges edges = setup_.graph->in_edges(nodes);
  ASSERT_EQ(edges.counts.size(), nodes.size());
  EXPECT_TRUE(edges.weights.empty());
  std::size_t next = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto original = at(view.original_ids[nodes[i]]);
    const Count begin = csc.indptr[original], degree = csc.indptr[original + 1] - begin;
    ASSERT_EQ(edges.counts[i], view.owns(nodes[i]) ? degree : 0);
    for (Count j = 0; j < edges.counts[i]; ++j, ++next) {
      EXPECT_EQ(view.original_ids[edges.sources[next]], csc.indices[at(begin + j)]);
      EXPECT_EQ(edges.edge_ids[next], csc.edge_ids[at(begin + j)]);
    }
  }
  EXPECT_EQ(edges.sources.size(), next);
  const std::vector<NodeId> wrong{3, 900};
  EXPECT_THROW(setup_.graph->in_edges(wrong), std::out_of_range);
}

TEST_P(LoadedGraph, DrawsNumbersByOriginalId) {
  const std::vector<NodeId> nodes{899, 3}, turned{3, 899};
  const std::vector<Count> counts{1, 4000}, turned_counts{4000, 1};
  const sampling::PickQuery query{.nodes = nodes, .key = {.seed = 5, .epoch = 1, .step = 2}, .hop = 1};
  sampling::PickQuery other = query;
  other.nodes = turned;
  const auto numbers = setup_.graph->keyed_numbers(query, counts),
             again = setup_.graph->keyed_numbers(other, turned_counts);
  ASSERT_EQ(numbers.size(), 4001U);
  EXPECT_EQ(numbers.front(), again.back());
  EXPECT_TRUE(std::equal(numbers.begin() + 1, numbers.end(), again.begin()));
  double sum = 0;
  for (std::size_t i = 1; i < numbers.size(); ++i) {
    ASSERT_TRUE(numbers[i] >= 0 && numbers[i] < 1);
    sum += numbers[i];
  }
  EXPECT_NEAR(sum / 4000, 0.5, 0.02);
  other.hop = 0;
  EXPECT_NE(setup_.graph->keyed_numbers(other, turned_counts).back(), numbers.front());
  test::expect_error<InputError>([&] { setup_.graph->keyed_numbers(query, std::vector<Count>{1}); },
                                 {"1 counts", "2 nodes"});
  test::expect_error<InputError>(
      [&] {
        setup_.graph->keyed_numbers(query, std::vector<Count>{1, -1});
      },
      {"is -1"});
}

TEST_P(LoadedGraph, GivesLabelsOnOneMachine) {
  const std::vector<NodeId> ids{899, 0, 417}, wrong{900};
  std::vector<std::int64_t> labels(ids.size());
  if (setup_.runtime->topology().num_machines() > 1) {
    test::expect_error<InputError>([&] { setup_.graph->labels(ids, labels.data()); }, {"other machines"});
    return;
  }
  setup_.graph->labels(ids, labels.data());
  const std::vector<NodeId> original = original_ids(ids);
  for (std::size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(labels[i], setup_.dataset->labels[at(original[i])]);
  EXPECT_THROW(setup_.graph->labels(wrong, labels.data()), std::out_of_range);
  test::expect_error<InputError>([&] { setup_.graph->label_sets(ids, nullptr); }, {"one class each"});
}

TEST_P(LoadedGraph, IsOfNoUseAfterItWasClosed) {
  setup_.graph->close();
  EXPECT_FALSE(setup_.graph->is_open());
  test::expect_error<Error>([&] { setup_.graph->stored(); }, {"was closed"});
  setup_.graph->close();
}

INSTANTIATE_TEST_SUITE_P(Machines, LoadedGraph, testing::Values(0, 1));

std::shared_ptr<Runtime> one_machine() {
  return std::make_shared<Runtime>(test::world(),
                                   comm::TopologyOptions{.compute = comm::TopologyOptions::Compute::cpu});
}

/// 0 -> 1 -> 2 -> 0, twice the last.
struct ArraysOfAGraph {
  std::array<std::int64_t, 8> edges{0, 1, 2, 2, 1, 2, 0, 0};
  std::array<float, 6> x{1, 2, 3, 4, 5, 6};
  std::array<std::int64_t, 3> y{1, -1, 0};
  std::array<bool, 3> train{true, false, true};

  graph::GraphArrays views() const {
    graph::GraphArrays arrays;
    arrays.edge_index = view("edge_index", 'i', 8, {2, 4}, edges.data());
    arrays.x = view("x", 'f', 4, {3, 2}, x.data());
    arrays.y = view("y", 'i', 8, {3}, y.data());
    arrays.train = view("train", 'b', 1, {3}, train.data());
    return arrays;
  }
  static graph::NpyArray view(const char* name, char kind, int bytes, std::vector<Count> shape,
                              const void* data) {
    graph::NpyArray array;
    array.origin = name;
    array.kind = kind;
    array.item_bytes = bytes;
    array.shape = std::move(shape);
    array.data = static_cast<const std::byte*>(data);
    return array;
  }
};

TEST(GraphFromArrays, KeepsEdgesAndRowsAsTheyAreGiven) {
  const ArraysOfAGraph given;
  const auto graph = Graph::from_arrays(one_machine(), given.views(), {});
  const store::GraphView& view = graph->stored().host_view();
  ASSERT_EQ(view.num_nodes, 3);
  EXPECT_EQ(std::vector<Count>(view.indptr, view.indptr + 4), (std::vector<Count>{0, 2, 3, 4}));
  const std::vector<NodeId> sources{2, 2, 0, 1};
  const std::vector<EdgeId> edges{2, 3, 0, 1};
  for (Count e = 0; e < 4; ++e) {
    EXPECT_EQ(view.indices[e], sources[at(e)]);
    EXPECT_EQ(view.edge_ids[e], edges[at(e)]);
  }
  const auto train = graph->nodes_of(Split::train);
  EXPECT_EQ(std::vector<NodeId>(train.begin(), train.end()), (std::vector<NodeId>{0, 2}));
  const std::array<NodeId, 2> ids{2, 0};
  std::array<float, 4> rows{};
  graph->gather_features(ids.data(), 2, rows.data(), {});
  EXPECT_EQ(rows, (std::array<float, 4>{5, 6, 1, 2}));
  EXPECT_EQ(graph->manifest().num_classes, 2);
  EXPECT_FALSE(graph->is_renumbered());
  graph->close();
}

TEST(GraphFromArrays, RefusesArraysThatContradictEachOther) {
  const ArraysOfAGraph given;
  const auto refuses = [&](auto change, const char* message) {
    graph::GraphArrays arrays = given.views();
    change(arrays);
    test::expect_error<InputError>([&] { Graph::from_arrays(one_machine(), arrays, {}); }, {message});
  };
  refuses([](auto& a) { a.edge_index.shape = {4, 2}; }, "edge_index has the shape (4, 2)");
  refuses([](auto& a) { a.x.shape = {2, 3}; }, "x says 2 nodes, y has 3 rows");
  refuses([](auto& a) { a.num_nodes = 4; }, "num_nodes says 4 nodes, x has 3 rows");
  refuses([](auto& a) { a.edge_weight = ArraysOfAGraph::view("edge_weight", 'f', 4, {3}, a.x.data); },
          "edge_weight: 3 weights for 4 edges");
  refuses([](auto& a) { a.train.shape = {2}; }, "train: a mask of shape (2,) for 3 nodes");
}

TEST(GraphFromArrays, NeedsOneMachine) {
  if (test::world().size() == 1) GTEST_SKIP() << "needs two ranks";
  const auto machines = std::make_shared<Runtime>(
      test::world(),
      comm::TopologyOptions{.ranks_per_machine = 1, .compute = comm::TopologyOptions::Compute::cpu});
  const ArraysOfAGraph given;
  test::expect_error<InputError>([&] { Graph::from_arrays(machines, given.views(), {}); },
                                 {"lives on one machine"});
}

}  // namespace
}  // namespace strata::batches
