// SPDX-License-Identifier: Apache-2.0
#include "strata/rpc/device_map.hpp"

#include <gmock/gmock.h>

#include <map>
#include <random>
#include <set>

#include "strata/util/error.hpp"
#include "strata/util/types.hpp"

namespace strata::rpc {
namespace {

std::string refusal(const std::vector<AgentFacts>& agents) {
  try {
    check_agents(agents);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

AgentFacts agent(const std::string& name, int num_devices, std::vector<AgentFacts::Map> maps = {}) {
  return {.name = name, .host = "here", .num_devices = num_devices, .maps = std::move(maps)};
}

/// Random agents, and a plain reference of what a map means.
struct Case {
  std::vector<AgentFacts> agents;
  std::map<std::pair<int, int>, std::map<int, std::set<int>>> its;   // of (caller, callee): mine -> its
  std::map<std::pair<int, int>, std::map<int, std::set<int>>> mine;  // its -> mine
  bool good = true;
};

Case random_case(std::mt19937& random) {
  const auto below = [&](int bound) { return static_cast<int>(random() % static_cast<unsigned>(bound)); };
  Case made;
  const int ranks = 1 + below(4);
  for (int r = 0; r < ranks; ++r) made.agents.push_back(agent("worker" + std::to_string(r), below(5)));
  for (int call = below(8); call > 0; --call) {
    const int from = below(ranks), to = below(ranks);
    const std::string peer = below(2) == 0 ? "rank:" + std::to_string(to) : "worker" + std::to_string(to);
    const DevicePair pair{.mine = below(5), .its = below(5)};
    made.agents[at(from)].maps.push_back({peer, {pair}});
    auto& forward = made.its[{from, to}][pair.mine];
    auto& backward = made.mine[{from, to}][pair.its];
    made.good = made.good && forward.empty() && backward.empty() &&
                pair.mine < made.agents[at(from)].num_devices && pair.its < made.agents[at(to)].num_devices;
    forward.insert(pair.its);
    backward.insert(pair.mine);
  }
  return made;
}

TEST(DeviceMaps, MeanWhatAPlainReferenceSays) {
  int good = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    Case made = random_case(random);
    ASSERT_EQ(refusal(made.agents).empty(), made.good) << "seed " << seed << ": " << refusal(made.agents);
    if (!made.good) continue;
    ++good;
    for (int from = 0; from < static_cast<int>(made.agents.size()); ++from) {
      const std::vector<DeviceMap> maps = maps_of(from, made.agents);
      for (int to = 0; to < static_cast<int>(made.agents.size()); ++to) {
        for (int device = 0; device < 6; ++device) {
          const DeviceMap& map = maps[at(to)];
          const auto& its = made.its[{from, to}][device];
          const auto& mine = made.mine[{from, to}][device];
          ASSERT_EQ(map.to_peer(device), its.empty() ? std::nullopt : std::optional(*its.begin()))
              << "seed " << seed;
          ASSERT_EQ(map.to_caller(device), mine.empty() ? std::nullopt : std::optional(*mine.begin()))
              << "seed " << seed;
        }
      }
    }
  }
  EXPECT_GT(good, 300);
}

TEST(DeviceMaps, MapNothingByThemselves) {
  EXPECT_EQ(DeviceMap().to_peer(0), std::nullopt);
  EXPECT_EQ(DeviceMap().text(), "nothing");
}

TEST(DeviceMaps, NameTheirPairs) {
  EXPECT_EQ(DeviceMap({{0, 1}, {2, 0}}).text(), "cuda:0 -> cuda:1, cuda:2 -> cuda:0");
}

TEST(CheckAgents, NamesEveryFault) {
  const std::string said = refusal(
      {agent("worker0", 2, {{"worker1", {{0, 1}, {0, 0}}}, {"worker1", {{1, 1}, {5, 7}}}, {"werker1", {}}}),
       agent("worker1", 2)});
  EXPECT_THAT(said, testing::HasSubstr("worker0's device map for worker1"));
  EXPECT_THAT(said, testing::HasSubstr("cuda:0 is mapped twice"));
  EXPECT_THAT(said, testing::HasSubstr("cuda:1 has two devices mapped to it"));
  EXPECT_THAT(said, testing::HasSubstr("worker0 has no cuda:5, it has 2 devices"));
  EXPECT_THAT(said, testing::HasSubstr("worker1 has no cuda:7"));
  EXPECT_THAT(said, testing::HasSubstr("no agent is called 'werker1'; did you mean 'worker1'?"));
}

TEST(CheckAgents, RefusesBadNames) {
  EXPECT_THAT(refusal({agent("a", 0), agent("a", 0)}),
              testing::HasSubstr("ranks 0 and 1 are both called 'a'"));
  EXPECT_THAT(refusal({agent("a b", 0)}), testing::HasSubstr("is not made of 1 to 127 letters"));
  EXPECT_THAT(refusal({agent("", 0)}), testing::HasSubstr("is not made of"));
  EXPECT_THAT(refusal({agent(std::string(128, 'x'), 0)}), testing::HasSubstr("is not made of"));
  EXPECT_THAT(refusal({agent("rank:1", 0), agent("b", 0)}), testing::HasSubstr("is that of a rank"));
  EXPECT_EQ(refusal({agent(std::string(127, 'x'), 0), agent("b:_-9", 0), agent("rank:2", 0)}), "");
}

TEST(RankOf, TakesNamesAndRanks) {
  const std::vector<AgentFacts> agents{agent("trainer", 0), agent("server", 0)};
  EXPECT_EQ(rank_of("server", agents), 1);
  EXPECT_EQ(rank_of("rank:0", agents), 0);
  EXPECT_THROW(rank_of("rank:2", agents), InputError);
  EXPECT_THROW(rank_of("rank:0x", agents), InputError);
  EXPECT_THROW(rank_of("", agents), InputError);
}

}  // namespace
}  // namespace strata::rpc
