// SPDX-License-Identifier: Apache-2.0
#include "channels/gpu_routes.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <tuple>
#include <vector>

namespace strata::rpc {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<AgentFacts> agents_of(int count) {
  std::vector<AgentFacts> agents;
  for (int rank = 0; rank < count; ++rank)
    agents.push_back({.name = fmt::format("worker{}", rank), .host = "here", .num_devices = 4, .maps = {}});
  return agents;
}

using Plain = std::tuple<int, int, std::uint32_t, int, int>;
std::vector<Plain> plain(const std::vector<GpuRoute>& routes) {
  std::vector<Plain> all;
  for (const GpuRoute& route : routes)
    all.emplace_back(route.sender, route.receiver, route.number, route.devices.mine, route.devices.its);
  return all;
}

TEST(GpuRoutes, GoThereForArgumentsAndBackForResults) {
  std::vector<AgentFacts> agents = agents_of(3);
  agents[0].maps = {{"worker1", {{0, 1}, {2, 0}}}};
  const std::vector<int> ranks{0, 1, 2};
  EXPECT_THAT(
      plain(gpu_routes_between(ranks, agents)),
      ElementsAre(Plain(0, 1, 0, 0, 1), Plain(0, 1, 1, 2, 0), Plain(1, 0, 0, 1, 0), Plain(1, 0, 1, 0, 2)));
}

TEST(GpuRoutes, AreOneWhereMapsOfBothSayTheSame) {
  std::vector<AgentFacts> agents = agents_of(2);
  agents[0].maps = {{"worker1", {{0, 0}}}};
  agents[1].maps = {{"worker0", {{0, 0}, {1, 1}}}};
  const std::vector<int> ranks{0, 1};
  EXPECT_THAT(
      plain(gpu_routes_between(ranks, agents)),
      ElementsAre(Plain(0, 1, 0, 0, 0), Plain(0, 1, 1, 1, 1), Plain(1, 0, 0, 0, 0), Plain(1, 0, 1, 1, 1)));
}

/// Devices are numbered as with CUDA_VISIBLE_DEVICES=0,1,2 on worker0 and 2,1 on worker1.
TEST(GpuRoutes, TellGpusApartByUuidAndNotByNumber) {
  std::vector<AgentFacts> agents = agents_of(2);
  agents[0].gpus = {"GPU-a", "GPU-b", "GPU-c"};
  agents[1].gpus = {"GPU-c", "GPU-b"};
  agents[0].maps = {{"worker1", {{0, 0}, {1, 1}}}};
  agents[1].maps = {{"worker0", {{0, 2}}}};
  const std::vector<int> ranks{0, 1};
  std::vector<std::tuple<int, int, int, bool>>
      found;  // sender, its device, the receiver's, whether they are one
  for (const GpuRoute& route : gpu_routes_between(ranks, agents))
    found.emplace_back(route.sender, route.devices.mine, route.devices.its, joins_one_gpu(route, agents));
  EXPECT_THAT(found, testing::UnorderedElementsAre(std::tuple(0, 0, 0, false), std::tuple(0, 1, 1, true),
                                                   std::tuple(0, 2, 0, true), std::tuple(1, 0, 0, false),
                                                   std::tuple(1, 1, 1, true), std::tuple(1, 0, 2, true)));
}

TEST(GpuRoutes, JoinNoRanksOfOtherMachinesAndNoneWithItself) {
  std::vector<AgentFacts> agents = agents_of(3);
  agents[0].maps = {{"worker2", {{0, 0}}}, {"worker0", {{0, 0}}}};
  const std::vector<int> ranks{0, 1};
  EXPECT_THAT(gpu_routes_between(ranks, agents), IsEmpty());
}

/// Whatever an argument or a result can need is there, and nothing else.
TEST(GpuRoutes, AreWhatRandomMapsNeed) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const int count = 2 + static_cast<int>(random() % 3);
    std::vector<AgentFacts> agents = agents_of(count);
    std::vector<std::tuple<int, int, int, int>> needed;
    for (int caller = 0; caller < count; ++caller) {
      for (int callee = 0; callee < count; ++callee) {
        std::vector<int> mine(4), its(4);
        std::iota(mine.begin(), mine.end(), 0);
        std::iota(its.begin(), its.end(), 0);
        std::ranges::shuffle(mine, random);
        std::ranges::shuffle(its, random);
        AgentFacts::Map map{.peer = fmt::format("worker{}", callee), .pairs = {}};
        for (std::size_t i = 0; i < random() % 4; ++i) {
          map.pairs.push_back({.mine = mine[i], .its = its[i]});
          if (caller == callee) continue;
          needed.emplace_back(caller, callee, mine[i], its[i]);
          needed.emplace_back(callee, caller, its[i], mine[i]);
        }
        agents[at(caller)].maps.push_back(map);
      }
    }
    std::ranges::sort(needed);
    needed.erase(std::unique(needed.begin(), needed.end()), needed.end());
    std::vector<int> ranks(at(count));
    std::iota(ranks.begin(), ranks.end(), 0);
    std::vector<std::tuple<int, int, int, int>> found;
    for (const GpuRoute& route : gpu_routes_between(ranks, agents))
      found.emplace_back(route.sender, route.receiver, route.devices.mine, route.devices.its);
    std::ranges::sort(found);
    ASSERT_EQ(found, needed);
  }
}

TEST(GpuLayout, OfHostMemoryHasSlotsOnly) {
  for (const std::size_t bytes : {GpuLayout::least_bytes(), std::size_t{1} << 20, std::size_t{1} << 30}) {
    const GpuLayout layout = GpuLayout::staged(bytes);
    EXPECT_EQ(layout.rooms_bytes, 0U);
    EXPECT_GT(layout.piece_bytes, 0U);
    EXPECT_EQ(layout.piece_bytes % GpuLayout::kAlignment, 0U);
    EXPECT_LE(layout.bytes(), bytes);
    EXPECT_LE(layout.piece_bytes, GpuLayout::kMostStagedBytes);
  }
}

TEST(GpuLayout, CutsStagedTensorsIntoPiecesThatFitASlot) {
  const GpuLayout large = GpuLayout::staged(std::size_t{1} << 30), small = GpuLayout::staged(1 << 20);
  EXPECT_EQ(large.piece_bytes_of(std::size_t{64} << 20), std::size_t{4} << 20);
  EXPECT_EQ(large.piece_bytes_of(std::size_t{32} << 20), std::size_t{2} << 20);
  EXPECT_EQ(large.piece_bytes_of(std::size_t{4} << 20), GpuLayout::kLeastStagedBytes);
  EXPECT_EQ(small.piece_bytes_of(std::size_t{64} << 20), small.piece_bytes);
  std::mt19937_64 random(5);
  for (int i = 0; i < 1000; ++i) {
    const std::size_t piece = large.piece_bytes_of(random() >> (random() % 40 + 24));
    EXPECT_GT(piece, 0U);
    EXPECT_LE(piece, large.piece_bytes);
    EXPECT_EQ(piece % GpuLayout::kAlignment, 0U);
  }
}

// Rooms leave little over for those that need pieces, which then are as large as a slot.
TEST(GpuLayout, CutsTensorsBetweenGpusThatReachEachOtherIntoSlots) {
  const GpuLayout layout = GpuLayout::of(std::size_t{1} << 27);
  EXPECT_EQ(layout.piece_bytes_of(std::size_t{1} << 27), layout.piece_bytes);
  EXPECT_EQ(layout.piece_bytes_of(1), layout.piece_bytes);
}

}  // namespace
}  // namespace strata::rpc
