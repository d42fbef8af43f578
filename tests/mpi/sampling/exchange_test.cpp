// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "exchange_scenario.hpp"

namespace strata::sampling {
namespace {

using test::SampledEdge;

class Exchange : public OnADevice {};
INSTANTIATE_TEST_SUITE_P(Devices, Exchange, testing::Values(Device::Kind::cpu, Device::Kind::cuda),
                         [](const auto& info) { return info.param == Device::Kind::cpu ? "cpu" : "cuda"; });

std::set<SampledEdge> union_over_ranks(const std::set<SampledEdge>& mine) {
  const std::vector<SampledEdge> list(mine.begin(), mine.end());
  const std::string blob(reinterpret_cast<const char*>(list.data()), list.size() * sizeof(SampledEdge));
  std::set<SampledEdge> all;
  for (const std::string& part : test::world().communicator().all_gather(blob)) {
    std::vector<SampledEdge> edges(part.size() / sizeof(SampledEdge));
    std::copy(part.begin(), part.end(), reinterpret_cast<char*>(edges.data()));
    all.insert(edges.begin(), edges.end());
  }
  return all;
}

TEST_P(Exchange, GivesTheBlocksOfTheWholeGraph) {
  for (const auto& fanouts : {std::vector<int>{5, 4, 3}, {-1}, {3, -1}, {0, 2}}) {
    expect_reference(make_scenario(device(), a_machine_a_rank(), fanouts, {30, 50, 10}));
    expect_reference(make_scenario(device(), uneven_machines(), fanouts, {30, 50, 10}));
  }
}

TEST_P(Exchange, GivesTheBlocksOfTheWholeGraphForEveryMethod) {
  for (const test::MethodCase& method : test::all_methods()) {
    SCOPED_TRACE(testing::PrintToString(method));
    for (const auto& fanouts : {std::vector<int>{5, 4, 3}, {3, -1}}) {
      expect_reference(
          with_method(make_scenario(device(), a_machine_a_rank(), fanouts, {30, 50, 0}), method));
      expect_reference(
          with_method(make_scenario(device(), uneven_machines(), fanouts, {30, 50, 10}), method));
    }
  }
}

// Each rank of a machine asks the same rank of the other for the same nodes, which then repeat there.
TEST_P(Exchange, AnswersSeveralRanksThatAskTheSame) {
  for (const test::MethodCase& method : test::all_methods()) {
    SCOPED_TRACE(testing::PrintToString(method));
    Scenario scenario = with_method(make_scenario(device(), uneven_machines(), {5, -1, 3}, {40}), method);
    for (auto& seeds : scenario.seeds) seeds = scenario.seeds.front();
    expect_reference(scenario);
  }
}

TEST_P(Exchange, TakesWideIds) {
  Scenario scenario = make_scenario(device(), a_machine_a_rank(), {4, 4}, {30});
  scenario.wide = true;
  expect_reference(scenario);
}

TEST_P(Exchange, GivesTheSameBlocksWithAHaloCache) {
  for (const auto& fanouts : {std::vector<int>{5, 4, 3}, {-1}, {3, -1}, {0, 2}}) {
    for (const bool wide : {false, true}) {
      Scenario scenario = make_scenario(device(), uneven_machines(), fanouts, {30, 50, 10});
      scenario.with_halo = true;
      scenario.wide = wide;
      expect_reference(scenario);
    }
  }
}

TEST_P(Exchange, AsksForNothingThatIsKept) {
  Scenario scenario = make_scenario(device(), a_machine_a_rank(), {5, 4}, {20});
  if (scenario.topology.num_machines() == 1) GTEST_SKIP() << "needs two machines";
  ExchangeReport without, with;
  scenario.sample(&without);
  scenario.with_halo = true;
  const auto blocks = scenario.sample(&with);
  const auto machine = at(test::world().rank());
  for (std::size_t hop = 0; hop < 2; ++hop) {
    const auto& block = blocks[1 - hop];
    Count kept = 0;
    for (Count i = 0; i < block.num_dst; ++i) {
      const NodeId node = block.src_nodes[at(i)];
      const bool remote = node < scenario.offsets[machine] || node >= scenario.offsets[machine + 1];
      kept += remote && node % 3 == 1;
    }
    EXPECT_EQ(with.remote_nodes[hop], without.remote_nodes[hop]);
    EXPECT_EQ(with.cached_nodes[hop], kept);
    EXPECT_EQ(without.cached_nodes[hop], 0);
  }
  std::vector<std::int64_t> bytes{with.bytes_sent, without.bytes_sent};
  test::world().communicator().all_reduce(bytes);
  EXPECT_LT(bytes[0], bytes[1]);
}

// Each remote node of a frontier costs its id, a count, and its picks, and nothing else travels.
TEST_P(Exchange, SendsWhatTheDistinctRemoteNodesNeed) {
  const Scenario scenario = make_scenario(device(), a_machine_a_rank(), {5, -1}, {40});
  ExchangeReport report;
  const auto blocks = scenario.sample(&report);
  const auto machine = at(test::world().rank());
  std::vector<std::int64_t> sums;  // by hop: expected, sent
  for (std::size_t hop = 0; hop < 2; ++hop) {
    const auto& block = blocks[1 - hop];
    std::set<NodeId> remote;
    Count picks = 0;
    for (std::size_t i = 0; i < at(block.num_dst); ++i) {
      const NodeId node = block.src_nodes[i];
      if (node >= scenario.offsets[machine] && node < scenario.offsets[machine + 1]) continue;
      if (remote.insert(node).second) picks += block.indptr[i + 1] - block.indptr[i];
    }
    constexpr Count kIdBytes = 4, kCountBytes = 4, kPickBytes = 4 + 8;
    sums.push_back(std::ssize(remote) * (kIdBytes + kCountBytes) + picks * kPickBytes);
    sums.push_back(report.hop_bytes[hop]);
  }
  test::world().communicator().all_reduce(sums);
  EXPECT_EQ(sums[1], sums[0]);
  EXPECT_EQ(sums[3], sums[2]);
}

TEST_P(Exchange, BearsDelays) {
  Scenario scenario = make_scenario(device(), a_machine_a_rank(), {5, 4, 3}, {30, 50, 10});
  scenario.longest_delay = std::chrono::milliseconds(50);
  const auto& seeds = scenario.seeds[at(test::world().rank())];
  test::expect_equal(scenario.sample(nullptr, 10),
                     test::reference_blocks(scenario.graph.front(), seeds, scenario.options, kKey));
}

// Of the last machine's nodes none has a neighbor; with three machines the second has no edge either.
TEST_P(Exchange, TakesMachinesWithoutEdges) {
  Scenario scenario = make_scenario(device(), a_machine_a_rank(), {5, 5}, {30});
  PlainGraph& graph = scenario.graph.front();
  const NodeId first_without = scenario.offsets[1];
  PlainGraph cut;
  cut.original_ids = graph.original_ids;
  cut.indptr.clear();
  for (NodeId v = 0; v <= graph.num_nodes(); ++v)
    cut.indptr.push_back(graph.indptr[at(std::min(v, first_without))]);
  cut.indices.assign(graph.indices.begin(), graph.indices.begin() + cut.indptr.back());
  cut.edge_ids.assign(graph.edge_ids.begin(), graph.edge_ids.begin() + cut.indptr.back());
  graph = cut;
  expect_reference(scenario);
}

TEST_P(Exchange, TakesRanksWithoutSeeds) {
  expect_reference(make_scenario(device(), a_machine_a_rank(), {5, 5}, {0, 40}));
  expect_reference(make_scenario(device(), a_machine_a_rank(), {5, 5}, {40, 0}));
  expect_reference(make_scenario(device(), a_machine_a_rank(), {5, 5}, {0}));
}

class DirectExchange : public FromDeviceToDevice {};

TEST_F(DirectExchange, GivesTheBlocksOfTheWholeGraph) {
  for (const auto& fanouts : {std::vector<int>{5, 4, 3}, {3, 0, 2}, {40, 2}}) {
    for (const bool strided : {false, true}) {
      for (const auto& machines : {a_machine_a_rank(), uneven_machines()}) {
        Scenario scenario = make(machines, fanouts, {30, 50, 10}, kPlenty);
        scenario.options.strided = strided;
        expect_reference(scenario);
        scenario.options.edge_ids = false;
        scenario.wide = true;
        expect_reference(scenario);
      }
    }
  }
}

TEST_F(DirectExchange, GivesTheBlocksOfTheWholeGraphForEveryMethod) {
  for (const test::MethodCase& method : test::all_methods()) {
    SCOPED_TRACE(testing::PrintToString(method));
    expect_reference(with_method(make(a_machine_a_rank(), {5, 4, 3}, {30, 50, 0}, kPlenty), method));
    expect_reference(with_method(make(uneven_machines(), {5, 4, 3}, {30, 50, 10}, kPlenty), method));
  }
}

TEST_F(DirectExchange, AnswersSeveralRanksThatAskTheSame) {
  Scenario scenario = make(uneven_machines(), {5, 4, 3}, {40}, kPlenty);
  for (auto& seeds : scenario.seeds) seeds = scenario.seeds.front();
  expect_reference(scenario);
}

// On one rank only, at any hop, or on all of them.
TEST_F(DirectExchange, SamplesAgainWhatDoesNotFit) {
  for (const std::vector<Count>& caps :
       {std::vector<Count>{2, 2000, 2000}, {2000, 3, 2000}, {2000, 2000, 60}, {0, 2000, 2000}, {0, 0, 0}}) {
    Scenario scenario = make(a_machine_a_rank(), {5, 4, 3}, {60, 4, 2}, kPlenty);
    scenario.caps = caps;
    scenario.options.strided = true;
    expect_reference(scenario);
  }
}

TEST_F(DirectExchange, MakesRoomForWhatDidNotFit) {
  Scenario scenario = make(a_machine_a_rank(), {5, 4, 3}, {60, 4, 2}, kPlenty);
  if (scenario.topology.num_machines() == 1) GTEST_SKIP() << "needs two machines";
  scenario.caps[0] = 2;
  ExchangeReport report;
  std::vector<bool> can_be_padded;
  scenario.sample(&report, 3, &can_be_padded);
  EXPECT_EQ(report.repeated_batches, 1);
  EXPECT_EQ(can_be_padded, (std::vector<bool>{false, true, true}));
}

TEST_F(DirectExchange, TakesRanksWithoutSeeds) {
  expect_reference(make(a_machine_a_rank(), {5, 5}, {0, 40}, kPlenty));
  expect_reference(make(a_machine_a_rank(), {5, 5}, {0}, kPlenty));
}

TEST_F(DirectExchange, ReportsWhatItDid) {
  const Scenario scenario = make(a_machine_a_rank(), {5, 4}, {20}, 100);
  if (scenario.topology.num_machines() == 1) GTEST_SKIP() << "needs two machines";
  Scenario through_host = scenario;
  through_host.caps.clear();
  ExchangeReport direct, staged;
  scenario.sample(&direct, 3);
  through_host.sample(&staged, 3);
  EXPECT_EQ(direct.frontier_nodes, staged.frontier_nodes);
  EXPECT_EQ(direct.remote_nodes, staged.remote_nodes);
  const Count others = scenario.topology.num_machines() - 1;
  constexpr Count kIdBytes = 4, kCountBytes = 4, kPickBytes = 4 + 8;
  for (std::size_t hop = 0; hop < 2; ++hop) {
    const Count fanout = scenario.options.fanouts[hop];
    EXPECT_EQ(direct.hop_bytes[hop], 3 * others * 100 * (kIdBytes + kCountBytes + fanout * kPickBytes));
    EXPECT_EQ(direct.traffic[hop].request_bytes, 3 * others * 100 * kIdBytes);
    EXPECT_EQ(direct.traffic[hop].request_messages, 3 * others);
    EXPECT_EQ(direct.traffic[hop].rounds, 3 * 2);
  }
  EXPECT_EQ(direct.bytes_sent, direct.bytes_received);
}

TEST_F(DirectExchange, GivesTheSameBlocksWithAHaloCache) {
  for (const auto& fanouts : {std::vector<int>{5, 4, 3}, {3, 0, 2}, {40, 2}}) {
    for (const bool strided : {false, true}) {
      for (const auto& machines : {a_machine_a_rank(), uneven_machines()}) {
        Scenario scenario = make(machines, fanouts, {30, 50, 0}, kPlenty);
        scenario.with_halo = true;
        scenario.options.strided = strided;
        expect_reference(scenario);
        scenario.options.edge_ids = false;
        scenario.wide = true;
        expect_reference(scenario);
      }
    }
  }
}

TEST_F(DirectExchange, GivesTheSameBlocksWithAHaloCacheForEveryMethod) {
  for (const test::MethodCase& method : test::all_methods()) {
    SCOPED_TRACE(testing::PrintToString(method));
    Scenario scenario = with_method(make(uneven_machines(), {5, 4, 3}, {30, 50, 10}, kPlenty), method);
    scenario.with_halo = true;
    expect_reference(scenario);
  }
}

// A repeated batch passes through the host, where the halo is found by another index.
TEST_F(DirectExchange, SamplesAgainWhatDoesNotFitBesideAHaloCache) {
  for (const std::vector<Count>& caps : {std::vector<Count>{2, 2000, 2000}, {2000, 2000, 8}, {0, 0, 0}}) {
    Scenario scenario = make(a_machine_a_rank(), {5, 4, 3}, {60, 4, 2}, kPlenty);
    scenario.caps = caps;
    scenario.with_halo = true;
    scenario.options.strided = true;
    expect_reference(scenario);
  }
}

TEST_F(DirectExchange, AsksForNothingThatIsKept) {
  Scenario scenario = make(a_machine_a_rank(), {5, 4}, {20}, kPlenty);
  if (scenario.topology.num_machines() == 1) GTEST_SKIP() << "needs two machines";
  scenario.with_halo = true;
  Scenario through_host = scenario;
  through_host.caps.clear();
  ExchangeReport direct, staged;
  scenario.sample(&direct, 3);
  through_host.sample(&staged, 3);
  EXPECT_GT(direct.cached_nodes[1], 0);
  EXPECT_EQ(direct.cached_nodes, staged.cached_nodes);
  EXPECT_EQ(direct.remote_nodes, staged.remote_nodes);
  EXPECT_EQ(direct.frontier_nodes, staged.frontier_nodes);

  // Messages with room for what is asked for then suffice; without the cache they do not.
  for (Count& most : staged.largest_requests) most = comm::rounded_cap(most);
  test::world().communicator().all_reduce(staged.largest_requests, comm::Communicator::Op::max);
  scenario.caps = staged.largest_requests;
  ExchangeReport with, without;
  scenario.sample(&with, 2);
  EXPECT_EQ(with.repeated_batches, 0);
  scenario.with_halo = false;
  scenario.sample(&without, 2);
  EXPECT_GT(without.repeated_batches, 0);
}

/// Over all ranks, the edges that one rank samples from the whole graph in its own order of ids.
void expect_same_set(const PlainGraph& whole, const Scenario& scenario) {
  std::vector<NodeId> seeds;  // as original ids
  for (const auto& of_rank : scenario.seeds) {
    for (const NodeId seed : of_rank) seeds.push_back(scenario.graph.front().original_ids[at(seed)]);
  }
  const auto expected = test::sampled_edges(test::reference_blocks(whole, seeds, scenario.options, kKey));
  EXPECT_EQ(union_over_ranks(test::sampled_edges(scenario.sample())), expected);
}

// A hop asks for its new nodes, and which are new depends on the seeds of a rank, in batches of
// new_nodes_only.
TEST_P(Exchange, SamplesTheSameSetUnderEveryPartition) {
  const PlainGraph whole = test::random_graph({.num_nodes = 2000, .mean_degree = 6, .hub_degree = 5000});
  const std::vector<int> fanouts{5, 4, 3};
  for (const test::MethodCase& method : test::all_methods()) {
    if (method.new_nodes_only) continue;
    SCOPED_TRACE(testing::PrintToString(method));
    expect_same_set(whole, with_method(make_scenario(device(), a_machine_a_rank(), fanouts, {25}), method));
  }
}

TEST_P(Exchange, ReportsWhatItDid) {
  const Scenario scenario = make_scenario(device(), a_machine_a_rank(), {5, 4}, {20});
  ExchangeReport report;
  const auto blocks = scenario.sample(&report, 3);
  ASSERT_EQ(report.frontier_nodes.size(), 2u);
  const int num_machines = scenario.topology.num_machines();
  if (num_machines == 1) {
    EXPECT_EQ(report.bytes_sent + report.bytes_received, 0);
    return;
  }
  const auto machine = at(scenario.topology.ranks[at(test::world().rank())].machine);
  for (std::size_t hop = 0; hop < 2; ++hop) {
    const auto& block = blocks[1 - hop];
    Count remote = 0;
    for (Count i = 0; i < block.num_dst; ++i) {
      const NodeId node = block.src_nodes[at(i)];
      remote += node < scenario.offsets[machine] || node >= scenario.offsets[machine + 1];
    }
    EXPECT_EQ(report.frontier_nodes[hop], 3 * block.num_dst);
    EXPECT_EQ(report.remote_nodes[hop], 3 * remote);
    const HopTraffic& traffic = report.traffic[hop];
    EXPECT_EQ(traffic.request_bytes, 3 * remote * 4);
    EXPECT_EQ(traffic.request_bytes + traffic.answer_bytes, report.hop_bytes[hop]);
    EXPECT_LE(traffic.request_messages, 3 * (num_machines - 1));
    EXPECT_EQ(traffic.request_messages > 0, remote > 0);
  }
  EXPECT_EQ(report.repeated_batches, 0);
  std::vector<std::int64_t> bytes{report.bytes_sent, report.bytes_received};
  test::world().communicator().all_reduce(bytes);
  EXPECT_GT(bytes[0], 0);
  EXPECT_EQ(bytes[0], bytes[1]);
  EXPECT_GT(report.seconds, 0);
}

}  // namespace
}  // namespace strata::sampling
