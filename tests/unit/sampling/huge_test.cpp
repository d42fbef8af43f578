// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>

#include "choosers/choice_rules.hpp"
#include "choosers/subset_cpu.hpp"
#include "strata/sampling/sampler.hpp"
#include "support/huge_graphs.hpp"
#include "support/methods.hpp"
#include "support/reference_sampler.hpp"

namespace strata::sampling {
namespace {

using test::HugeHub;
using test::MethodCase;
using test::PlainBlock;
using test::ShiftedGraph;

constexpr BatchKey kKey{.seed = 5, .epoch = 1, .step = 9};

SamplerOptions options_of(const MethodCase& method, std::vector<int> fanouts) {
  SamplerOptions options = method.options(std::move(fanouts), 10);
  options.in_degrees = false;
  return options;
}

class HugeGraphs : public testing::TestWithParam<MethodCase> {
 protected:
  ThreadPool pool_{2};
};
INSTANTIATE_TEST_SUITE_P(Methods, HugeGraphs, testing::ValuesIn(test::all_methods()),
                         testing::PrintToStringParamName());

/// The positions that uniform samplers promise for the hub.
std::vector<Count> uniform_positions(int fanout, bool replace) {
  const auto degree = static_cast<std::uint64_t>(HugeHub::kHubDegree);
  const std::uint64_t key = node_key(kKey, RandomUse::sample, 0, HugeHub::kNodes - 1 - HugeHub::kHub);
  std::vector<Count> positions;
  std::vector<std::uint32_t> subset(at(fanout));
  const bool by_subset = !replace && Subset::admits(HugeHub::kHubDegree, fanout);
  if (by_subset) choose_subset(Subset(HugeHub::kHubDegree, fanout, key), fanout, subset.data());
  for (int j = 0; j < fanout; ++j) {
    const auto pick = static_cast<std::uint64_t>(j);
    positions.push_back(replace     ? static_cast<Count>(below(keyed_word(key, pick), degree))
                        : by_subset ? Count{subset[pick]}
                                    : static_cast<Count>(Shuffle(degree, key)(pick)));
  }
  return positions;
}

TEST_P(HugeGraphs, ChooseFromAHundredMillionNeighbors) {
  const HugeHub graph(Device{});
  const Count begin = HugeHub::begin_of(HugeHub::kHub);
  for (const int fanout : {10, 50}) {
    const auto sampler = make_sampler(graph.view(), options_of(GetParam(), {fanout}), {}, 1, pool_);
    const std::vector<NodeId> seeds{4, HugeHub::kHub, 400};
    const auto blocks = test::plain_blocks(sampler->sample(seeds, kKey, 0, {}), {});
    const PlainBlock& block = blocks.front();
    const Count first = block.indptr[1], end = block.indptr[2];
    if (GetParam().method != Method::labor) {
      ASSERT_EQ(end - first, fanout);
    }
    std::set<EdgeId> places;
    for (Count e = first; e < end; ++e) {
      const auto entry = at(e);
      const EdgeId place = block.edge_ids[entry];
      places.insert(place);
      EXPECT_EQ(block.src_nodes[at(block.indices[entry])], HugeHub::neighbor_at(place));
      if (GetParam().method == Method::weighted) {
        EXPECT_GT(HugeHub::weight_at(place), 0);
      }
    }
    EXPECT_GT(std::ssize(places) + 2, end - first) << "the draws fall on few places";
    if (GetParam().method != Method::uniform) continue;
    const std::vector<Count> expected = uniform_positions(fanout, GetParam().replace);
    for (int j = 0; j < fanout; ++j) {
      EXPECT_EQ(block.edge_ids[at(first + j)], (begin + expected[at(j)]) % HugeHub::kPattern) << "pick " << j;
    }
  }
}

// Ids above 2^31 change nothing but the ids.
TEST_P(HugeGraphs, OfWideIdsAreSampledAsOthers) {
  constexpr NodeId kShift = (NodeId{1} << 31) + 77;
  const ShiftedGraph high(kShift, Device{}), low(0, Device{});
  const std::vector<NodeId> seeds{3, 0, 699, 100, 101};
  std::vector<NodeId> high_seeds;
  for (const NodeId seed : seeds) high_seeds.push_back(seed + kShift);
  const SamplerOptions options = options_of(GetParam(), {5, -1, 3});
  const auto expected =
      test::plain_blocks(make_sampler(low.view(), options, {}, 1, pool_)->sample(seeds, kKey, 0, {}), {});
  const auto sampler = make_sampler(high.view(), options, {}, 1, pool_);
  auto actual = test::plain_blocks(sampler->sample(high_seeds, kKey, 0, {}), {});
  for (PlainBlock& block : actual)
    for (auto* nodes : {&block.src_nodes, &block.sorted_inputs})
      for (NodeId& node : *nodes) node -= kShift;
  EXPECT_GT(std::ssize(expected.front().src_nodes), 200);
  test::expect_equal(actual, expected);
}

}  // namespace
}  // namespace strata::sampling
