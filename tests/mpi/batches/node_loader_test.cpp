// SPDX-License-Identifier: Apache-2.0
#include "strata/batches/node_loader.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "loader_setup.hpp"
#include "strata/batches/pipeline.hpp"
#include "strata/util/error.hpp"
#include "support/expect_error.hpp"

namespace strata::batches {
namespace {

using test::LoaderSetup;
using Batches = std::vector<std::shared_ptr<const NodeBatch>>;

template <typename T>
std::vector<T> values_or_none(const T* data, Count size) {
  return data == nullptr ? std::vector<T>() : std::vector<T>(data, data + size);
}

class NodeLoaderTest : public testing::TestWithParam<int> {
 protected:
  static NodeLoaderOptions options(NodeLoaderOptions::Form form) {
    return {.batch_size = 20, .shuffle = true, .seed = 9, .sampler = {.fanouts = {4, 3}}, .form = form};
  }
  static NodeLoaderOptions blocks() { return options(NodeLoaderOptions::Form::blocks); }
  static NodeLoaderOptions merged() { return options(NodeLoaderOptions::Form::merged); }

  static Batches epoch(NodeLoader& loader, std::uint32_t number) {
    Batches batches;
    loader.begin(number);
    while (auto batch = loader.next({})) batches.push_back(std::move(batch));
    return batches;
  }
  void expect_rows_and_labels(const NodeBatch& batch) const {
    const std::vector<float> rows = test::features_as_floats(*setup_.dataset);
    for (Count i = 0; i < batch.num_nodes(); ++i) {
      for (Count c = 0; c < LoaderSetup::kCols; ++c)
        ASSERT_EQ(batch.features[i * LoaderSetup::kCols + c],
                  rows[at(batch.original_ids()[i] * LoaderSetup::kCols + c)]);
    }
    for (Count i = 0; i < batch.num_seeds(); ++i)
      ASSERT_EQ(batch.labels[i], setup_.dataset->labels[at(batch.original_ids()[i])]);
  }
  LoaderSetup setup_{GetParam()};
};

TEST_P(NodeLoaderTest, GivesTheBatchesOfThePipeline) {
  NodeLoader loader(setup_.graph, blocks());
  Runtime& runtime = *setup_.runtime;
  Pipeline pipeline({.ranks = runtime.ranks(),
                     .graph = &setup_.graph->stored(),
                     .sample_pool = &runtime.sample_pool(),
                     .gather_pool = &runtime.gather_pool()},
                    {.sampler = {.fanouts = {4, 3}, .edge_ids = true},
                     .global_batch = 20 * runtime.communicator().size(),
                     .seed = 9,
                     .targets = labels_of(setup_.graph->stored())});
  const Batches batches = epoch(loader, 3);
  ASSERT_EQ(std::ssize(batches), pipeline.steps_per_epoch());
  pipeline.begin({.epoch = 3, .first = 0, .end = pipeline.steps_per_epoch()});
  for (const auto& batch : batches) {
    const LoadedBatch* expected = pipeline.next({});
    ASSERT_NE(expected, nullptr);
    EXPECT_EQ(batch->num_global_seeds, expected->num_global_seeds);
    ASSERT_EQ(batch->sample.blocks.size(), expected->sample.blocks.size());
    for (std::size_t i = 0; i < batch->sample.blocks.size(); ++i) {
      const sampling::Block& block = batch->sample.blocks[i];
      const sampling::Block& wanted = expected->sample.blocks[i];
      EXPECT_EQ(block.num_src, wanted.num_src);
      EXPECT_EQ(values_or_none(block.indptr, block.num_dst + 1),
                values_or_none(wanted.indptr, wanted.num_dst + 1));
      EXPECT_EQ(values_or_none(block.indices, block.num_edges),
                values_or_none(wanted.indices, wanted.num_edges));
      EXPECT_EQ(values_or_none(block.edge_ids, block.num_edges),
                values_or_none(wanted.edge_ids, wanted.num_edges));
      EXPECT_EQ(values_or_none(batch->nodes(), block.num_src),
                values_or_none(wanted.src_nodes, wanted.num_src));
    }
    expect_rows_and_labels(*batch);
    pipeline.release(*expected, {});
  }
  pipeline.close();
  loader.close();
}

TEST_P(NodeLoaderTest, TransposesAllBlocksButTheFirst) {
  NodeLoaderOptions given = blocks();
  given.transposes = true;
  NodeLoader loader(setup_.graph, given), without(setup_.graph, blocks());
  const Batches batches = epoch(loader, 0), plain = epoch(without, 0);
  for (std::size_t b = 0; b < batches.size(); ++b) {
    EXPECT_EQ(plain[b]->sample.blocks.back().transposed_indptr, nullptr);
    EXPECT_EQ(batches[b]->sample.blocks.front().transposed_indptr, nullptr);
    const sampling::Block& block = batches[b]->sample.blocks.back();
    ASSERT_NE(block.transposed_indptr, nullptr);
    EXPECT_EQ(values_or_none(block.indices, block.num_edges),
              values_or_none(plain[b]->sample.blocks.back().indices, block.num_edges));
    std::vector<std::vector<std::int32_t>> out_edges(at(block.num_src));
    for (Count dst = 0; dst < block.num_dst; ++dst) {
      for (Count e = block.indptr[dst]; e < block.indptr[dst + 1]; ++e)
        out_edges[at(block.indices[e])].push_back(static_cast<std::int32_t>(dst));
    }
    for (Count src = 0; src < block.num_src; ++src) {
      const Count begin = block.transposed_indptr[src], end = block.transposed_indptr[src + 1];
      EXPECT_EQ(values_or_none(block.transposed_indices + begin, end - begin), out_edges[at(src)]);
    }
  }
  loader.close();
  without.close();
}

TEST_P(NodeLoaderTest, NamesTheEdgesOfBlocksAsPairs) {
  NodeLoader loader(setup_.graph, blocks());
  for (const auto& batch : epoch(loader, 0)) {
    for (const sampling::Block& block : batch->sample.blocks) {
      std::vector<std::int64_t> pairs(at(2 * block.num_edges), -1);
      expand_edges(block, {pairs.data(), pairs.data() + block.num_edges}, {}, setup_.runtime->caller_pool());
      for (Count dst = 0; dst < block.num_dst; ++dst) {
        for (Count e = block.indptr[dst]; e < block.indptr[dst + 1]; ++e) {
          EXPECT_EQ(pairs[at(e)], block.indices[e]);
          EXPECT_EQ(pairs[at(block.num_edges + e)], dst);
        }
      }
    }
  }
  loader.close();
}

// Sampled edges by original ids, as the input lists them.
TEST_P(NodeLoaderTest, MergesTheHopsToOneSampledGraph) {
  const graph::CscGraph& csc = setup_.dataset->structure;
  std::map<EdgeId, std::pair<NodeId, NodeId>> ends;
  for (NodeId v = 0; v < csc.num_nodes; ++v) {
    for (Count e = csc.indptr[at(v)]; e < csc.indptr[at(v) + 1]; ++e)
      ends[csc.edge_ids[at(e)]] = {csc.indices[at(e)], v};
  }
  const std::vector<int> fanouts{4, 3};
  NodeLoader loader(setup_.graph, merged());
  for (const auto& batch : epoch(loader, 1)) {
    const std::vector<Count> nodes = batch->nodes_of_hop(), edges = batch->edges_of_hop();
    const Count known = nodes[0] + nodes[1], num_edges = batch->num_edges();
    ASSERT_EQ(known + nodes[2], batch->num_nodes());
    ASSERT_EQ(edges[0] + edges[1], num_edges);
    std::map<NodeId, Count> in_edges;
    for (Count e = 0; e < num_edges; ++e) {
      const std::int64_t src = batch->edge_index[e], dst = batch->edge_index[num_edges + e];
      const auto [from, to] = ends.at(batch->edge_ids[e]);
      ASSERT_EQ(batch->original_ids()[src], from);
      ASSERT_EQ(batch->original_ids()[dst], to);
      const bool of_first_hop = e < edges[0];
      EXPECT_EQ(dst < batch->num_seeds(), of_first_hop) << "a hop asks for the nodes that the last one found";
      EXPECT_LT(dst, known);
      ++in_edges[dst];
    }
    for (NodeId dst = 0; dst < known; ++dst) {
      const auto original = at(batch->original_ids()[dst]);
      const Count degree = csc.indptr[original + 1] - csc.indptr[original];
      EXPECT_EQ(in_edges[dst], std::min<Count>(degree, fanouts[dst < batch->num_seeds() ? 0 : 1]));
    }
    expect_rows_and_labels(*batch);
  }
  loader.close();
}

TEST_P(NodeLoaderTest, GivesBatchesThatMayBeKept) {
  NodeLoader loader(setup_.graph, merged());
  const Batches first = epoch(loader, 0);
  EXPECT_EQ(loader.memory().batches_held, std::ssize(first));
  const Batches other = epoch(loader, 1);
  for (const auto& batch : first) expect_rows_and_labels(*batch);
  for (const auto& batch : other) expect_rows_and_labels(*batch);
  loader.close();
  for (const auto& batch : other) expect_rows_and_labels(*batch);
}

TEST_P(NodeLoaderTest, UsesTheMemoryOfBatchesThatAreGone) {
  NodeLoader loader(setup_.graph, blocks());
  for (std::uint32_t number = 0; number < 5; ++number) {
    loader.begin(number);
    for (auto batch = loader.next({}); batch; batch = loader.next({})) expect_rows_and_labels(*batch);
  }
  EXPECT_EQ(loader.memory().batches_held, 0);
  EXPECT_EQ(loader.memory().batches_made, 2) << "the one in use, and the next";
  loader.close();
}

TEST_P(NodeLoaderTest, MakesTheMeanOverRanksTheMeanOverSeeds) {
  NodeLoader loader(setup_.graph, blocks());
  for (const auto& batch : epoch(loader, 0)) {
    double sum = batch->loss_scale;
    test::world().communicator().all_reduce(std::span(&sum, 1));
    EXPECT_NEAR(sum, test::world().size(), 1e-9);
    EXPECT_NEAR(batch->loss_scale * static_cast<double>(batch->num_global_seeds),
                static_cast<double>(batch->num_seeds() * test::world().size()), 1e-9);
  }
  loader.close();
}

TEST_P(NodeLoaderTest, TakesNodesInTheirOrder) {
  NodeLoaderOptions given = blocks();
  given.shuffle = false;
  given.drop_last = true;
  given.batch_size = 4;
  given.features = given.labels = false;
  std::vector<NodeId> nodes;
  for (NodeId node = 0; node < 13 * test::world().size(); ++node) nodes.push_back(899 - 7 * node % 900);
  given.nodes = nodes;
  NodeLoader loader(setup_.graph, given);
  ASSERT_EQ(loader.steps_per_epoch(), 3);
  const Batches batches = epoch(loader, 0);
  for (const auto& batch : batches) EXPECT_EQ(batch->features, nullptr);
  std::vector<NodeId> mine;
  for (const auto& batch : batches)
    mine.insert(mine.end(), batch->nodes(), batch->nodes() + batch->num_seeds());
  const std::string bytes(reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(NodeId));
  std::set<NodeId> seen;
  for (const std::string& blob : test::world().communicator().all_gather(bytes)) {
    const auto* ids = reinterpret_cast<const NodeId*>(blob.data());
    seen.insert(ids, ids + blob.size() / sizeof(NodeId));
  }
  EXPECT_EQ(seen, std::set<NodeId>(nodes.begin(), nodes.begin() + 12 * test::world().size()));
  if (test::world().size() == 1) {
    EXPECT_EQ(mine, std::vector<NodeId>(nodes.begin(), nodes.begin() + 12));
  }
  loader.close();
}

TEST_P(NodeLoaderTest, GivesRanksWithoutSeedsEmptyBatches) {
  NodeLoaderOptions given = merged();
  given.nodes = std::vector<NodeId>{17};
  NodeLoader loader(setup_.graph, given);
  const Batches batches = epoch(loader, 0);
  ASSERT_EQ(batches.size(), 1U);
  Count all = batches[0]->num_seeds();
  test::world().communicator().all_reduce(std::span(&all, 1));
  EXPECT_EQ(all, 1);
  if (batches[0]->num_seeds() == 0) {
    EXPECT_EQ(batches[0]->num_nodes(), 0);
    EXPECT_EQ(batches[0]->num_edges(), 0);
    EXPECT_EQ(batches[0]->loss_scale, 0);
    EXPECT_EQ(batches[0]->feature_cols, LoaderSetup::kCols);
    for (const void* array :
         {static_cast<const void*>(batches[0]->features), static_cast<const void*>(batches[0]->labels),
          static_cast<const void*>(batches[0]->edge_index)})
      EXPECT_NE(array, nullptr) << "an array without elements is an array";
  }
  loader.close();
}

TEST_P(NodeLoaderTest, IsLeftInMidEpochAndBegunAnew) {
  NodeLoader loader(setup_.graph, blocks());
  const Batches whole = epoch(loader, 2);
  loader.begin(1);
  EXPECT_NE(loader.next({}), nullptr);
  const Batches again = epoch(loader, 2);
  ASSERT_EQ(again.size(), whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i)
    EXPECT_EQ(values_or_none(again[i]->nodes(), again[i]->num_nodes()),
              values_or_none(whole[i]->nodes(), whole[i]->num_nodes()));
  loader.end();
  EXPECT_EQ(loader.next({}), nullptr);
  loader.close();
}

TEST_P(NodeLoaderTest, SaysWhetherABatchIsReady) {
  NodeLoader loader(setup_.graph, blocks());
  loader.begin(0);
  while (!loader.wait_for(std::chrono::milliseconds(1))) continue;
  EXPECT_NE(loader.next({}), nullptr);
  loader.end();
  loader.close();
}

TEST_P(NodeLoaderTest, RefusesWhatCannotBeLoaded) {
  const auto refuses = [&](auto change, const char* message) {
    NodeLoaderOptions given = blocks();
    change(given);
    test::expect_error<InputError>([&] { NodeLoader(setup_.graph, given); }, {message});
  };
  refuses([](auto& o) { o.batch_size = 0; }, "batch_size is 0");
  refuses([](auto& o) { o.nodes = std::vector<NodeId>{3, 4, 3}; }, "node 3 is given to a loader twice");
  refuses([](auto& o) { o.sampler.fanouts = {-2}; }, "the fanout -2 is below -1");
  refuses([](auto& o) { o.sampler.method = sampling::Method::weighted; }, "loaded without weights");
  refuses([](auto& o) { o.deals = false; }, "deal=False needs ids in input_nodes");
}

TEST_P(NodeLoaderTest, NamesTheFirstIdThatIsNoNodes) {
  NodeLoaderOptions given = blocks();
  for (const bool deals : {true, false}) {
    given.deals = deals;
    given.nodes = std::vector<NodeId>{3, 900, -1};
    try {
      NodeLoader(setup_.graph, given);
      ADD_FAILURE() << "id 900 was taken";
    } catch (const std::out_of_range& error) {
      EXPECT_STREQ(error.what(), "index 1 is 900, which is not a node of the graph (0 to 899)");
    }
  }
}

TEST_P(NodeLoaderTest, TellsOtherRanksOfAnIdThatIsNoNodes) {
  if (test::world().size() == 1) GTEST_SKIP() << "needs two ranks";
  NodeLoaderOptions given = blocks();
  given.deals = false;
  const auto offsets = setup_.graph->stored().machine_offsets();
  given.nodes = std::vector<NodeId>{offsets[at(setup_.graph->runtime().machine().index())]};
  if (test::world().rank() == 0) {
    given.nodes = std::vector<NodeId>{-1};
    EXPECT_THROW(NodeLoader(setup_.graph, given), std::out_of_range);
  } else {
    EXPECT_THROW(NodeLoader(setup_.graph, given), InputError);
  }
}

TEST_P(NodeLoaderTest, RefusesRanksThatDisagree) {
  const bool is_last = test::world().rank() == test::world().size() - 1;
  if (test::world().size() == 1) GTEST_SKIP() << "needs two ranks";
  const auto refuses = [&](auto change, const char* wanted, const char* found) {
    NodeLoaderOptions given = blocks();
    if (is_last) change(given);
    test::expect_error<InputError>([&] { NodeLoader(setup_.graph, given); }, {wanted, found});
  };
  refuses([](auto& o) { o.batch_size = 21; }, "rank 0 makes a loader with batch_size 20",
          "with batch_size 21");
  refuses([](auto& o) { o.seed = 10; }, "with seed 9", "with seed 10");
  refuses([](auto& o) { o.sampler.fanouts = {4, 3, 2}; }, "with fanouts 4,3,", "with fanouts 4,3,2");
  refuses([](auto& o) { o.nodes = Split::valid; }, "with input_nodes train", "with input_nodes valid");
  refuses([](auto& o) { o.nodes = std::vector<NodeId>{7}; }, "with input_nodes train", "1 ids");
  refuses([](auto& o) { o.deals = false; }, "with deal true", "with deal false");
}

TEST_P(NodeLoaderTest, RefusesRanksThatBeginDifferentEpochs) {
  const int rank = test::world().rank(), last = test::world().size() - 1;
  if (last == 0) GTEST_SKIP() << "needs two ranks";
  NodeLoader loader(setup_.graph, blocks());
  loader.begin(0);
  const std::uint32_t mine = rank == last ? 4 : 3;
  test::expect_error<InputError>([&] { loader.begin(mine); },
                                 {"rank 0 begins an epoch with number 3", "with number 4", "set_epoch()"});
  EXPECT_NE(loader.next({}), nullptr) << "of epoch 0";
  EXPECT_EQ(std::ssize(epoch(loader, 4)), loader.steps_per_epoch());
  loader.close();
}

/// A rank's own nodes: 30 of its machine for rank 0, 60 for rank 1 and so on, the highest first.
std::vector<NodeId> nodes_of_this_rank(Graph& graph) {
  const auto offsets = graph.stored().machine_offsets();
  const NodeId end = offsets[at(graph.runtime().machine().index()) + 1];
  std::vector<NodeId> nodes(at(30 * (test::world().rank() + 1)));
  for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i] = end - 1 - static_cast<NodeId>(i);
  return nodes;
}

TEST_P(NodeLoaderTest, GoesThroughEpochsBesideALoaderOfAnotherThread) {
  NodeLoader first(setup_.graph, blocks()), second(setup_.graph, merged());
  const auto seeds = [](NodeLoader& loader, std::uint32_t number) {
    std::vector<NodeId> nodes;
    for (const auto& batch : epoch(loader, number))
      nodes.insert(nodes.end(), batch->nodes(), batch->nodes() + batch->num_seeds());
    return nodes;
  };
  constexpr std::uint32_t kEpochs = 8;
  std::vector<std::vector<NodeId>> of_first, of_second;
  std::thread other([&] {
    for (std::uint32_t e = 0; e < kEpochs; ++e) of_second.push_back(seeds(second, 100 + e));
  });
  for (std::uint32_t e = 0; e < kEpochs; ++e) of_first.push_back(seeds(first, e));
  other.join();
  EXPECT_EQ(of_first[7], seeds(first, 7));
  EXPECT_EQ(of_second[7], seeds(second, 107));
  first.close();
  second.close();
}

TEST_P(NodeLoaderTest, TakesNodesOfEachRanksOwnInStep) {
  const int ranks = test::world().size();
  NodeLoaderOptions given = merged();
  given.deals = false;
  given.shuffle = false;
  given.nodes = nodes_of_this_rank(*setup_.graph);
  const auto& mine = std::get<std::vector<NodeId>>(given.nodes);
  NodeLoader loader(setup_.graph, given);
  EXPECT_EQ(loader.num_seeds(), 15 * ranks * (ranks + 1));
  EXPECT_EQ(loader.steps_per_epoch(), (30 * ranks + 19) / 20);
  std::vector<NodeId> seeds;
  Count step = 0;
  for (const auto& batch : epoch(loader, 0)) {
    Count all = 0;
    for (int rank = 0; rank < ranks; ++rank) all += std::clamp<Count>(30 * (rank + 1) - 20 * step, 0, 20);
    EXPECT_EQ(batch->num_global_seeds, all);
    for (Count i = 0; i < batch->num_seeds(); ++i) {
      EXPECT_EQ(batch->input_ids[i], std::ssize(seeds));
      seeds.push_back(batch->nodes()[i]);
    }
    expect_rows_and_labels(*batch);
    ++step;
  }
  EXPECT_EQ(seeds, mine);
  loader.close();

  given.shuffle = given.drop_last = true;
  NodeLoader shuffled(setup_.graph, given);
  EXPECT_EQ(shuffled.steps_per_epoch(), 30 * ranks / 20);
  std::set<NodeId> visited;
  for (const auto& batch : epoch(shuffled, 0)) {
    EXPECT_TRUE(batch->num_seeds() == 20 || batch->num_seeds() == 0) << batch->num_seeds();
    for (Count i = 0; i < batch->num_seeds(); ++i) {
      EXPECT_EQ(mine[at(batch->input_ids[i])], batch->nodes()[i]);
      EXPECT_TRUE(visited.insert(batch->nodes()[i]).second);
    }
  }
  EXPECT_EQ(std::ssize(visited), std::ssize(mine) / 20 * 20);
  shuffled.close();
}

TEST_P(NodeLoaderTest, RefusesNodesOfItsOwnThatAnotherMachineOwns) {
  if (setup_.runtime->topology().num_machines() == 1) GTEST_SKIP() << "needs two machines";
  NodeLoaderOptions given = blocks();
  given.deals = false;
  const Count last = setup_.runtime->topology().num_machines() - 1;
  given.nodes = std::vector<NodeId>{899};
  test::expect_error<InputError>([&] { NodeLoader(setup_.graph, given); },
                                 {"node 899 lies on machine", std::to_string(last)});
}

TEST_P(NodeLoaderTest, SaysWhereSeedsAreAmongItsNodes) {
  NodeLoaderOptions given = blocks();
  given.nodes = std::vector<NodeId>{700, 3, 450, 12, 88, 5};
  const auto& nodes = std::get<std::vector<NodeId>>(given.nodes);
  NodeLoader loader(setup_.graph, given);
  for (const auto& batch : epoch(loader, 1)) {
    for (Count i = 0; i < batch->num_seeds(); ++i)
      EXPECT_EQ(nodes[at(batch->input_ids[i])], batch->nodes()[i]);
  }
  loader.close();
}

TEST_P(NodeLoaderTest, EndsBeforeTheGraphThatIsClosed) {
  NodeLoader left(setup_.graph, blocks());
  NodeLoader begun(setup_.graph, merged());
  auto dropped = std::make_unique<NodeLoader>(setup_.graph, blocks());
  left.begin(0);
  const auto batch = left.next({});
  begun.begin(3);
  dropped->begin(1);
  if (test::world().rank() == 0) dropped.reset();
  setup_.graph->close();
  test::expect_error<Error>([&] { left.next({}); }, {"was closed"});
  test::expect_error<Error>([&] { begun.begin(0); }, {"was closed"});
  expect_rows_and_labels(*batch);
  left.close();
}

TEST_P(NodeLoaderTest, IsOfNoUseAfterItWasClosed) {
  NodeLoader loader(setup_.graph, blocks());
  loader.close();
  test::expect_error<Error>([&] { loader.begin(0); }, {"was closed"});
  loader.close();
}

/// The in-edges of each node in turn, from the one on that the node's first number says.
class TurnedLists final : public sampling::NeighborChooser {
 public:
  explicit TurnedLists(const Graph& graph) : graph_(graph) {}
  void choose(const sampling::PickQuery& query, sampling::ChosenNeighbors& out) override {
    if (query.key.step == fails_at) throw InputError("no neighbors today", "Come back tomorrow.");
    const Graph::InEdges edges = graph_.in_edges(query.nodes);
    const std::vector<Count> ones(query.nodes.size(), 1);
    const std::vector<double> numbers = graph_.keyed_numbers(query, ones);
    out = {};
    Count begin = 0;
    for (std::size_t i = 0; i < query.nodes.size(); ++i) {
      const Count degree = edges.counts[i], taken = std::min<Count>(degree, query.fanout);
      const auto first = static_cast<Count>(numbers[i] * static_cast<double>(degree));
      out.counts.push_back(taken);
      for (Count j = 0; j < taken; ++j) {
        const auto place = at(begin + (first + j) % degree);
        out.neighbors.push_back(edges.sources[place]);
        out.edge_ids.push_back(edges.edge_ids[place]);
      }
      begin += degree;
    }
  }
  std::uint32_t fails_at = 1000;

 private:
  const Graph& graph_;
};

TEST_P(NodeLoaderTest, LetsAChooserDecideAlikeOnAnyRanks) {
  NodeLoaderOptions given = blocks();
  given.sampler.chooser = std::make_shared<TurnedLists>(*setup_.graph);
  NodeLoader loader(setup_.graph, given);
  const graph::CscGraph& csc = setup_.dataset->structure;
  for (const auto& batch : epoch(loader, 1)) {
    for (std::uint32_t hop = 0; hop < 2; ++hop) {
      const sampling::Block& block = batch->sample.blocks[1 - hop];
      for (Count dst = 0; dst < block.num_dst; ++dst) {
        const NodeId node = batch->original_ids()[dst];
        const Count begin = csc.indptr[at(node)], degree = csc.indptr[at(node) + 1] - begin;
        const double number = unit_double(mix64(node_key(batch->key, RandomUse::sample, hop, node)));
        const auto first = static_cast<Count>(number * static_cast<double>(degree));
        std::vector<EdgeId> expected;
        for (Count j = 0; j < std::min<Count>(degree, hop == 0 ? 4 : 3); ++j)
          expected.push_back(csc.edge_ids[at(begin + (first + j) % degree)]);
        ASSERT_EQ(
            values_or_none(block.edge_ids + block.indptr[dst], block.indptr[dst + 1] - block.indptr[dst]),
            expected)
            << "node " << node << ", hop " << hop;
      }
    }
  }
  loader.close();
}

TEST_P(NodeLoaderTest, ThrowsWhatAChooserThrows) {
  if (GetParam() == 1) GTEST_SKIP() << "other machines would wait for the ranks that failed";
  NodeLoaderOptions given = blocks();
  const auto chooser = std::make_shared<TurnedLists>(*setup_.graph);
  chooser->fails_at = 2;
  given.sampler.chooser = chooser;
  NodeLoader loader(setup_.graph, given);
  test::expect_error<InputError>([&] { epoch(loader, 0); }, {"no neighbors today"});
}

INSTANTIATE_TEST_SUITE_P(Machines, NodeLoaderTest, testing::Values(0, 1));

TEST(NodeLoaderOfOwnNodes, GoesItsOwnWayOnEveryRank) {
  LoaderSetup setup(0);
  const int rank = test::world().rank();
  NodeLoaderOptions given{
      .own_nodes = true, .batch_size = 20, .shuffle = true, .seed = 9, .sampler = {.fanouts = {4, 3}}};
  std::vector<NodeId> mine;
  for (NodeId node = rank; node < 50 + 100 * rank; ++node) mine.push_back(node);
  given.nodes = mine;
  NodeLoader loader(setup.graph, given);
  EXPECT_EQ(loader.steps_per_epoch(), (std::ssize(mine) + 19) / 20);
  for (int times = 0; times <= rank; ++times) {  // ranks take different numbers of batches
    std::multiset<NodeId> seeds;
    loader.begin(0);
    while (const auto batch = loader.next({})) {
      EXPECT_EQ(batch->num_global_seeds, batch->num_seeds());
      EXPECT_EQ(batch->loss_scale, 1);
      seeds.insert(batch->nodes(), batch->nodes() + batch->num_seeds());
    }
    EXPECT_EQ(seeds, std::multiset<NodeId>(mine.begin(), mine.end()));
  }
  loader.close();
}

TEST(NodeLoaderOfOwnNodes, TakesASplitOnOneRankOnly) {
  LoaderSetup setup(0);
  if (test::world().rank() > 0) return;
  NodeLoader loader(setup.graph, {.nodes = Split::valid, .own_nodes = true, .sampler = {.fanouts = {2}}});
  EXPECT_EQ(loader.num_seeds(), std::ssize(setup.dataset->splits.valid));
  loader.close();
}

TEST(NodeLoaderOfOwnNodes, NeedsOneMachine) {
  if (test::world().size() == 1) GTEST_SKIP() << "needs two ranks";
  LoaderSetup setup(1);
  test::expect_error<InputError>(
      [&] {
        NodeLoader(setup.graph, {.own_nodes = true, .batch_size = 20, .sampler = {.fanouts = {4, 3}}});
      },
      {"of their own", "Give all ranks the same nodes"});
}

TEST(NodeLoaderOfSets, GivesARowPerNodeAndAColumnPerClass) {
  LoaderSetup setup(
      0, {.num_nodes = 300, .num_edges = 900, .feature_cols = 2, .num_classes = 40, .label_sets = true});
  NodeLoader loader(setup.graph, {.batch_size = 16, .sampler = {.fanouts = {2}}});
  const Count words = setup.dataset->label_words();
  loader.begin(0);
  while (const auto batch = loader.next({})) {
    ASSERT_EQ(batch->labels, nullptr);
    for (Count i = 0; i < batch->num_seeds(); ++i) {
      const std::int32_t* set = setup.dataset->labels.data() + batch->original_ids()[i] * words;
      for (Count c = 0; c < 40; ++c) {
        const float value = batch->label_sets[i * 40 + c];
        if (is_unlabelled(set, 40))
          EXPECT_TRUE(std::isnan(value));
        else
          EXPECT_EQ(value, has_class(set, c) ? 1 : 0);
      }
    }
  }
  loader.close();
}

}  // namespace
}  // namespace strata::batches
