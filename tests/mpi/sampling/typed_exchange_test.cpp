// SPDX-License-Identifier: Apache-2.0
#include "exchange_scenario.hpp"

namespace strata::sampling {
namespace {

/// The same scenario on a graph of several relations.
Scenario typed(Scenario scenario, int num_relations) {
  scenario.graph.front() = test::typed(scenario.graph.front(), num_relations, 9);
  constexpr Count kMeanPicks = 8;
  for (const Count cap : scenario.caps) scenario.pick_caps.push_back(kMeanPicks * cap);
  return scenario;
}

/// Every third relation keeps its fanout, and the others get 0 and 1.
Scenario by_relation(Scenario scenario) {
  for (const int most : scenario.options.fanouts) {
    std::vector<int>& of_hop = scenario.options.relation_fanouts.emplace_back();
    for (int r = 0; r < scenario.graph.front().num_relations; ++r)
      of_hop.push_back(r % 3 == 0 ? most : most == 0 || r % 3 == 1 ? 0 : 1);
  }
  return scenario;
}

class TypedExchange : public OnADevice {};
INSTANTIATE_TEST_SUITE_P(Devices, TypedExchange, testing::Values(Device::Kind::cpu, Device::Kind::cuda),
                         [](const auto& info) { return info.param == Device::Kind::cpu ? "cpu" : "cuda"; });

TEST_P(TypedExchange, GivesTheBlocksOfTheWholeGraph) {
  for (const test::MethodCase& method : test::all_methods()) {
    SCOPED_TRACE(testing::PrintToString(method));
    for (const auto& fanouts : {std::vector<int>{3, 2}, {2, -1}}) {
      Scenario scenario =
          typed(with_method(make_scenario(device(), uneven_machines(), fanouts, {20, 30, 0}), method), 4);
      scenario.with_halo = fanouts.back() > 0;
      expect_reference(by_relation(scenario));
    }
  }
}

class TypedDirectExchange : public FromDeviceToDevice {};

TEST_F(TypedDirectExchange, GivesTheBlocksOfTheWholeGraph) {
  for (const int relations : {2, 7, 300}) {
    for (const auto& fanouts : {std::vector<int>{5, 4, 3}, {3, 0, 2}, {40, 2}}) {
      SCOPED_TRACE(testing::PrintToString(fanouts) + " over " + std::to_string(relations) + " relations");
      for (const auto& machines : {a_machine_a_rank(), uneven_machines()}) {
        Scenario scenario = typed(make(machines, fanouts, {30, 50, 10}, kPlenty), relations);
        expect_reference(scenario);
        scenario.options.edge_ids = false;
        scenario.wide = scenario.with_halo = true;
        expect_reference(by_relation(scenario));
      }
    }
  }
}

TEST_F(TypedDirectExchange, GivesTheBlocksOfTheWholeGraphForEveryMethod) {
  for (const test::MethodCase& method : test::all_methods()) {
    for (const bool with_halo : {false, true}) {
      SCOPED_TRACE(testing::PrintToString(method));
      Scenario scenario =
          typed(with_method(make(uneven_machines(), {5, 4, 3}, {30, 50, 0}, kPlenty), method), 5);
      scenario.with_halo = with_halo;
      expect_reference(scenario);
      expect_reference(by_relation(scenario));
    }
  }
}

TEST_F(TypedDirectExchange, AnswersSeveralRanksThatAskTheSame) {
  Scenario scenario = typed(make(uneven_machines(), {5, 4, 3}, {40}, kPlenty), 4);
  for (auto& seeds : scenario.seeds) seeds = scenario.seeds.front();
  expect_reference(scenario);
}

// Nodes or their picks, on one rank only or on all of them.
TEST_F(TypedDirectExchange, SamplesAgainWhatDoesNotFit) {
  for (const std::vector<Count>& caps : {std::vector<Count>{2, 2000, 2000}, {2000, 2000, 60}, {0, 0, 0}}) {
    Scenario scenario = typed(make(a_machine_a_rank(), {5, 4, 3}, {60, 4, 2}, kPlenty), 4);
    scenario.caps = caps;
    expect_reference(scenario);
    scenario.caps.assign(caps.size(), kPlenty);
    scenario.pick_caps = caps;
    expect_reference(scenario);
    scenario.with_halo = true;
    expect_reference(scenario);
  }
}

// Nodes have many more neighbors than the fanout, over as many relations.
TEST_F(TypedDirectExchange, MakesRoomForPicks) {
  Scenario scenario = make(a_machine_a_rank(), {1, 1}, {100}, kPlenty);
  if (scenario.topology.num_machines() == 1) GTEST_SKIP() << "needs two machines";
  scenario.graph = {test::renumbered(test::random_graph({.num_nodes = 2000, .mean_degree = 200}), 8)};
  scenario = typed(scenario, 400);
  for (Count& cap : scenario.pick_caps) cap *= 32;
  ExchangeReport report;
  std::vector<bool> can_be_padded;
  const auto blocks = scenario.sample(&report, 4, &can_be_padded);
  EXPECT_GT(report.repeated_batches, 0);
  EXPECT_LT(report.repeated_batches, 4);
  EXPECT_TRUE(can_be_padded.back());
  test::expect_equal(blocks,
                     test::reference_blocks(scenario.graph.front(), scenario.seeds[at(test::world().rank())],
                                            scenario.options, kKey));
}

TEST_F(TypedDirectExchange, ReportsWhatItDid) {
  Scenario scenario = typed(make(a_machine_a_rank(), {5, 4}, {20}, kPlenty), 4);
  if (scenario.topology.num_machines() == 1) GTEST_SKIP() << "needs two machines";
  Scenario through_host = scenario;
  through_host.caps.clear();
  ExchangeReport staged;
  through_host.sample(&staged, 1);
  test::world().communicator().all_reduce(staged.largest_answers, comm::Communicator::Op::max);
  for (std::size_t hop = 0; hop < 2; ++hop) {
    EXPECT_GT(staged.largest_answers[hop], 0);
    scenario.pick_caps[hop] = comm::rounded_cap(staged.largest_answers[hop]);
  }
  ExchangeReport direct;
  scenario.sample(&direct, 3);
  EXPECT_EQ(direct.repeated_batches, 0) << "there is room for what was measured";
  const Count others = scenario.topology.num_machines() - 1;
  constexpr Count kIdBytes = 4, kCountBytes = 4, kPickBytes = 4 + 8;
  for (std::size_t hop = 0; hop < 2; ++hop)
    EXPECT_EQ(direct.hop_bytes[hop],
              3 * others * (kPlenty * (kIdBytes + kCountBytes) + scenario.pick_caps[hop] * kPickBytes));
  EXPECT_EQ(direct.bytes_sent, direct.bytes_received);
}

}  // namespace
}  // namespace strata::sampling
