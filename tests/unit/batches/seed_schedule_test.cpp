// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "strata/batches/pipeline.hpp"

namespace strata::batches {
namespace {

constexpr NodeId kNodes = 5000;
constexpr std::uint64_t kSeed = 17;

/// A third of the nodes, in an order that is not that of their global ids, as original ids give.
std::vector<NodeId> random_train_nodes(std::uint64_t seed) {
  std::vector<NodeId> nodes(kNodes);
  std::iota(nodes.begin(), nodes.end(), NodeId{0});
  std::mt19937_64 random(seed);
  std::shuffle(nodes.begin(), nodes.end(), random);
  nodes.resize(kNodes / 3);
  return nodes;
}

/// Who takes part: ranks[m] ranks on machine m, which owns [offsets[m], offsets[m + 1]).
struct Cluster {
  std::vector<NodeId> offsets;
  std::vector<int> ranks;
};

const Cluster kOne{{0, kNodes}, {1}};
const Cluster kUneven{{0, 700, 700, 3100, kNodes}, {2, 1, 3, 4}};  // machine 1 owns nothing

std::vector<SeedSchedule> schedules(const Cluster& cluster, const std::vector<NodeId>& nodes,
                                    Count global_batch) {
  std::vector<SeedSchedule> all;
  for (std::size_t m = 0; m < cluster.ranks.size(); ++m) {
    for (int r = 0; r < cluster.ranks[m]; ++r) {
      all.emplace_back(SeedSchedule::Options{.nodes = nodes,
                                             .machine_offsets = cluster.offsets,
                                             .machine = static_cast<int>(m),
                                             .local_rank = r,
                                             .machine_ranks = cluster.ranks[m],
                                             .global_batch = global_batch,
                                             .seed = kSeed});
    }
  }
  return all;
}

/// The seeds of a step on all ranks together, sorted.
std::vector<NodeId> seeds_of_step(const std::vector<SeedSchedule>& ranks, std::uint32_t epoch, Count step) {
  std::vector<NodeId> all;
  for (const SeedSchedule& rank : ranks) {
    const SeedSchedule::Step mine = rank.step(epoch, step);
    all.insert(all.end(), mine.seeds.begin(), mine.seeds.end());
  }
  std::sort(all.begin(), all.end());
  return all;
}

TEST(SeedSchedule, VisitsEveryTrainingNodeOnceAnEpoch) {
  const auto nodes = random_train_nodes(1);
  std::vector<NodeId> wanted = nodes;
  std::sort(wanted.begin(), wanted.end());
  for (const Count batch : {Count{1}, Count{64}, Count{1000}, Count{1666}, Count{100000}}) {
    const auto ranks = schedules(kUneven, nodes, batch);
    std::vector<NodeId> visited;
    for (Count s = 0; s < ranks.front().steps_per_epoch(); ++s) {
      const auto seeds = seeds_of_step(ranks, 3, s);
      visited.insert(visited.end(), seeds.begin(), seeds.end());
    }
    std::sort(visited.begin(), visited.end());
    EXPECT_EQ(visited, wanted) << "global batch " << batch;
  }
}

TEST(SeedSchedule, SaysWhereSeedsAreAmongTheNodes) {
  const auto nodes = random_train_nodes(2);
  for (const SeedSchedule& rank : schedules(kUneven, nodes, 300)) {
    const SeedSchedule::Step step = rank.step(1, 2);
    ASSERT_EQ(step.places.size(), step.seeds.size());
    for (std::size_t i = 0; i < step.seeds.size(); ++i)
      EXPECT_EQ(nodes[static_cast<std::size_t>(step.places[i])], step.seeds[i]);
  }
}

TEST(SeedSchedule, GivesRanksTheirOwnNodes) {
  const std::vector<Count> counts{25, 0, 40};
  const std::vector<NodeId> offsets{0, kNodes};
  for (const bool drop_last : {false, true}) {
    Count global = 0;
    for (std::size_t rank = 0; rank < counts.size(); ++rank) {
      std::vector<NodeId> mine(static_cast<std::size_t>(counts[rank]));
      std::iota(mine.begin(), mine.end(), static_cast<NodeId>(1000 * rank));
      const SeedSchedule schedule({.nodes = mine,
                                   .drop_last = drop_last,
                                   .machine_offsets = offsets,
                                   .local_rank = static_cast<int>(rank),
                                   .machine_ranks = 3,
                                   .global_batch = 30,
                                   .seed = kSeed,
                                   .nodes_of_rank = counts});
      EXPECT_EQ(schedule.num_seeds(), 65);
      ASSERT_EQ(schedule.steps_per_epoch(), 4);
      EXPECT_EQ(schedule.max_seeds(), std::min<Count>(10, counts[rank]));
      std::vector<NodeId> visited;
      for (Count step = 0; step < 4; ++step) {
        const SeedSchedule::Step mine = schedule.step(2, step);
        EXPECT_EQ(mine.num_global, schedule.num_global_seeds(step, step + 1));
        visited.insert(visited.end(), mine.seeds.begin(), mine.seeds.end());
        if (rank == 0) global += mine.num_global;
      }
      const Count wanted = drop_last ? counts[rank] / 10 * 10 : counts[rank];
      EXPECT_EQ(std::ssize(visited), wanted);
      EXPECT_FALSE(visited.size() > 1 && std::ranges::is_sorted(visited)) << "the order is shuffled";
      std::ranges::sort(visited);
      EXPECT_EQ(std::ranges::adjacent_find(visited), visited.end());
      EXPECT_TRUE(
          std::ranges::all_of(visited, [&](NodeId v) { return v / 1000 == static_cast<NodeId>(rank); }));
    }
    EXPECT_EQ(global, drop_last ? 60 : 65);
  }
}

TEST(SeedSchedule, StepsHaveTheSameSeedsWhateverTheMachines) {
  const auto nodes = random_train_nodes(2);
  constexpr Count kBatch = 130;
  const auto one = schedules(kOne, nodes, kBatch), many = schedules(kUneven, nodes, kBatch);
  ASSERT_EQ(one.front().steps_per_epoch(), (static_cast<Count>(nodes.size()) + kBatch - 1) / kBatch);
  for (Count s = 0; s < one.front().steps_per_epoch(); ++s) {
    const auto seeds = seeds_of_step(many, 0, s);
    EXPECT_EQ(seeds, seeds_of_step(one, 0, s)) << "step " << s;
    for (const SeedSchedule& rank : many)
      EXPECT_EQ(rank.step(0, s).num_global, static_cast<Count>(seeds.size())) << "step " << s;
  }
}

TEST(SeedSchedule, AMachineTrainsItsOwnNodesSplitEvenly) {
  const auto nodes = random_train_nodes(3);
  const auto ranks = schedules(kUneven, nodes, 300);
  for (Count s = 0; s < ranks.front().steps_per_epoch(); ++s) {
    std::size_t at = 0;
    for (std::size_t m = 0; m < kUneven.ranks.size(); ++m) {
      Count least = kNodes, most = 0;
      for (int r = 0; r < kUneven.ranks[m]; ++r, ++at) {
        const auto seeds = ranks[at].step(1, s).seeds;
        for (const NodeId seed : seeds) {
          EXPECT_GE(seed, kUneven.offsets[m]);
          EXPECT_LT(seed, kUneven.offsets[m + 1]);
        }
        least = std::min(least, static_cast<Count>(seeds.size()));
        most = std::max(most, static_cast<Count>(seeds.size()));
        EXPECT_LE(static_cast<Count>(seeds.size()), ranks[at].max_seeds())
            << "machine " << m << " step " << s;
      }
      EXPECT_LE(most - least, 1) << "machine " << m << " step " << s;
    }
  }
}

/// The schedules of one machine's ranks over parts of the graph.
std::vector<SeedSchedule> schedules_over_parts(const std::vector<NodeId>& offsets, int ranks,
                                               const std::vector<NodeId>& nodes, Count global_batch,
                                               const std::vector<std::int32_t>& clusters = {}) {
  std::vector<SeedSchedule> all;
  for (int r = 0; r < ranks; ++r) {
    all.emplace_back(SeedSchedule::Options{.nodes = nodes,
                                           .clusters = clusters,
                                           .machine_offsets = kOne.offsets,
                                           .part_offsets = offsets,
                                           .machine = 0,
                                           .local_rank = r,
                                           .machine_ranks = ranks,
                                           .global_batch = global_batch,
                                           .seed = kSeed});
  }
  return all;
}

TEST(SeedSchedule, RanksGetSeedsOfFewParts) {
  const auto nodes = random_train_nodes(7);
  const std::vector<NodeId> parts{0, 900, 900, 2000, 2600, 4100, kNodes};  // one of them is empty
  const auto part_of = [&](NodeId node) { return std::ranges::upper_bound(parts, node) - parts.begin(); };
  const auto ranks = schedules_over_parts(parts, 3, nodes, 300);
  const auto one = schedules(kOne, nodes, 300);
  for (Count s = 0; s < one.front().steps_per_epoch(); ++s) {
    const std::vector<NodeId> all = one.front().step(2, s).seeds;
    std::vector<NodeId> dealt;
    for (const SeedSchedule& rank : ranks) {
      const std::vector<NodeId> mine = rank.step(2, s).seeds;
      EXPECT_NEAR(static_cast<double>(mine.size()), static_cast<double>(all.size()) / 3, 1);
      dealt.insert(dealt.end(), mine.begin(), mine.end());
    }
    std::vector<NodeId> wanted = all;  // seeds of a part keep the order of the step
    std::ranges::stable_sort(wanted, {}, part_of);
    EXPECT_EQ(dealt, wanted) << "step " << s;
  }
}

TEST(SeedSchedule, RanksGetSeedsOfFewClusters) {
  constexpr Count kClusters = 5;
  const auto nodes = random_train_nodes(9);
  for (const std::vector<NodeId>& parts : {std::vector<NodeId>{0, kNodes}, {0, 900, 900, 2600, kNodes}}) {
    const auto group_of = [&](NodeId node) {
      const auto part = std::ranges::upper_bound(parts, node) - parts.begin() - 1;
      return static_cast<std::int32_t>(part * kClusters + node % kClusters);
    };
    std::vector<std::int32_t> clusters;
    for (const NodeId node : nodes) clusters.push_back(group_of(node));
    const auto one = schedules(kOne, nodes, 300);
    const auto ranks = schedules_over_parts(parts, 3, nodes, 300, clusters);
    for (Count s = 0; s < one.front().steps_per_epoch(); ++s) {
      const std::vector<NodeId> all = one.front().step(1, s).seeds;
      std::vector<NodeId> dealt;
      for (const SeedSchedule& rank : ranks) {
        const std::vector<NodeId> mine = rank.step(1, s).seeds;
        EXPECT_NEAR(static_cast<double>(mine.size()), static_cast<double>(all.size()) / 3, 1);
        dealt.insert(dealt.end(), mine.begin(), mine.end());
      }
      std::vector<NodeId> wanted = all;  // seeds of a cluster keep the order of the step
      std::ranges::stable_sort(wanted, {}, group_of);
      EXPECT_EQ(dealt, wanted) << parts.size() - 1 << " parts, step " << s;
    }
    EXPECT_EQ(schedules_over_parts(parts, 1, nodes, 300, clusters).front().step(1, 2).seeds,
              one.front().step(1, 2).seeds)
        << "a rank alone keeps the order of the step";
  }
}

TEST(SeedSchedule, ARankAloneKeepsTheOrderOfTheStep) {
  const auto nodes = random_train_nodes(8);
  const std::vector<NodeId> parts{0, 2500, kNodes};
  EXPECT_EQ(schedules_over_parts(parts, 1, nodes, 300).front().step(1, 2).seeds,
            schedules(kOne, nodes, 300).front().step(1, 2).seeds);
}

TEST(SeedSchedule, MaxSeedsIsReachedByAMachineThatOwnsAll) {
  const auto nodes = random_train_nodes(4);
  const Cluster cluster{{0, kNodes}, {3}};
  const auto ranks = schedules(cluster, nodes, 100);
  Count most = 0;
  for (const SeedSchedule& rank : ranks)
    most = std::max(most, static_cast<Count>(rank.step(0, 0).seeds.size()));
  EXPECT_EQ(most, ranks.front().max_seeds());
  EXPECT_EQ(most, 34);
}

TEST(SeedSchedule, OrderDependsOnEpochAndSeed) {
  const auto nodes = random_train_nodes(5);
  const auto first = schedules(kOne, nodes, 200);
  EXPECT_EQ(first.front().step(0, 0).seeds, first.front().step(0, 0).seeds);
  EXPECT_NE(seeds_of_step(first, 0, 0), seeds_of_step(first, 1, 0));
  const SeedSchedule other({.nodes = nodes,
                            .machine_offsets = kOne.offsets,
                            .machine = 0,
                            .local_rank = 0,
                            .machine_ranks = 1,
                            .global_batch = 200,
                            .seed = kSeed + 1});
  EXPECT_NE(first.front().step(0, 0).seeds, other.step(0, 0).seeds);
}

TEST(SeedSchedule, KeepsTheOrderOfNodesThatAreNotShuffled) {
  const auto nodes = random_train_nodes(9);
  const SeedSchedule schedule({.nodes = nodes,
                               .shuffle = false,
                               .machine_offsets = kOne.offsets,
                               .global_batch = 200,
                               .seed = kSeed});
  for (const std::uint32_t epoch : {0u, 1u}) {
    std::vector<NodeId> seen;
    for (Count s = 0; s < schedule.steps_per_epoch(); ++s) {
      const auto seeds = schedule.step(epoch, s).seeds;
      seen.insert(seen.end(), seeds.begin(), seeds.end());
    }
    EXPECT_EQ(seen, nodes);
  }
}

TEST(SeedSchedule, DropsALastStepOfFewerSeeds) {
  auto nodes = random_train_nodes(10);
  nodes.resize(1000);
  const auto steps = [&](Count batch, bool drop_last) {
    return SeedSchedule({.nodes = nodes,
                         .drop_last = drop_last,
                         .machine_offsets = kOne.offsets,
                         .global_batch = batch,
                         .seed = kSeed})
        .steps_per_epoch();
  };
  EXPECT_EQ(steps(300, false), 4);
  EXPECT_EQ(steps(300, true), 3);
  EXPECT_EQ(steps(250, true), 4);
  EXPECT_EQ(steps(1001, true), 0);
}

TEST(SeedSchedule, StepsBehindTheLastAreEmpty) {
  const auto nodes = random_train_nodes(6);
  const auto ranks = schedules(kUneven, nodes, 128);
  const SeedSchedule::Step step = ranks.back().step(0, ranks.back().steps_per_epoch());
  EXPECT_TRUE(step.seeds.empty());
  EXPECT_EQ(step.num_global, 0);
}

}  // namespace
}  // namespace strata::batches
