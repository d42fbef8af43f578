// SPDX-License-Identifier: Apache-2.0
#include "support/repeating_frontier.hpp"

#include <gtest/gtest.h>

#include "support/expect_error.hpp"
#include "support/methods.hpp"
#include "support/reference_sampler.hpp"

namespace strata::sampling {
namespace {

using test::ChosenList;
using test::MethodCase;
using test::PlainGraph;
using test::ViewOwner;

class RepeatingFrontier : public testing::TestWithParam<MethodCase> {
 protected:
  /// Every occurrence has what the node gets in a frontier of its own.
  template <typename Id>
  void expect_equal_lists(const PlainGraph& graph, int fanout, std::uint32_t hop) {
    const ViewOwner owner(graph, {.wide = sizeof(Id) == 8});
    const SamplerOptions options = GetParam().options({fanout}, 1000);
    const auto chooser = make_pick_chooser<Id>(owner.view(), options, pool_);
    const std::vector<NodeId> frontier = test::repeating_frontier(1000, graph.num_nodes(), hop + 1);
    const PickQuery query{frontier, fanout, {.seed = 3, .epoch = 1, .step = 4}, hop};
    const std::vector<ChosenList> lists = test::chosen_lists(*chooser, query);
    std::map<NodeId, Count> occurrences;
    for (std::size_t i = 0; i < frontier.size(); ++i) {
      ++occurrences[frontier[i]];
      PickQuery alone = query;
      alone.nodes = std::span(frontier).subspan(i, 1);
      ASSERT_EQ(lists[i], test::chosen_lists(*chooser, alone).front()) << "node " << frontier[i];
    }
    EXPECT_LT(occurrences.size(), 600u);
  }

  ThreadPool pool_{2};
};
INSTANTIATE_TEST_SUITE_P(Methods, RepeatingFrontier, testing::ValuesIn(test::all_methods()),
                         testing::PrintToStringParamName());

TEST_P(RepeatingFrontier, GivesEveryOccurrenceTheSame) {
  const PlainGraph graph = test::renumbered(
      test::random_graph({.num_nodes = 3000, .mean_degree = 20, .hub_degree = 4000, .seed = 3}), 4);
  for (const int fanout : {0, 1, 5, 40, -1}) {
    for (const std::uint32_t hop : {0, 1, 2}) {
      SCOPED_TRACE("fanout " + std::to_string(fanout) + ", hop " + std::to_string(hop));
      expect_equal_lists<std::int32_t>(graph, fanout, hop);
      expect_equal_lists<std::int64_t>(graph, fanout, hop);
    }
  }
}

// Of a minibatch, seeds are rows of a block, of which a node has one.
TEST_P(RepeatingFrontier, IsRefusedAsSeeds) {
  const PlainGraph graph = test::random_graph({.num_nodes = 2000, .seed = 4});
  const ViewOwner owner(graph, {});
  const SamplerOptions options = GetParam().options({4, 3, 2}, 100);
  const auto sampler = make_sampler(owner.view(), options, {}, 1, pool_);
  const auto refuses = [&](const std::vector<NodeId>& seeds, const std::string& message) {
    test::expect_error([&] { sampler->sample(seeds, {}, 0, {}); }, {message});
  };
  const auto seeds = test::random_nodes(99, 0, graph.num_nodes(), 5);
  for (const std::size_t again : {0, 50, 98}) {
    std::vector<NodeId> repeated = seeds;
    repeated.push_back(seeds[again]);
    refuses(repeated,
            "node " + std::to_string(seeds[again]) + " is among the seeds of a batch more than once");
    test::expect_equal(test::plain_blocks(sampler->sample(seeds, {.step = 1}, 0, {}), {}),
                       test::reference_blocks(graph, seeds, options, {.step = 1}));
  }
  refuses({3, 2000}, "the seed 2000 is not a node of the graph (0 to 1999)");
  refuses({-1}, "the seed -1 is not a node");
}

}  // namespace
}  // namespace strata::sampling
