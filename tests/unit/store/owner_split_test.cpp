// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "strata/store/halo.hpp"
#include "strata/util/error.hpp"
#include "support/topologies.hpp"

namespace strata::store {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Machines of 2, 1 and 3 ranks, in this order.
comm::Topology topology() { return test::topology_of({0, 0, 1, 2, 2, 2}); }

const std::vector<NodeId> kOffsets{0, 10, 20, 30};

TEST(Servers, AreRailAligned) {
  EXPECT_THAT(Servers::of(topology(), kOffsets, 1).rank_of_machine, ElementsAre(1, 2, 4));
  EXPECT_THAT(Servers::of(topology(), kOffsets, 5).rank_of_machine, ElementsAre(0, 2, 5));
  EXPECT_EQ(Servers::of(topology(), kOffsets, 5).machine, 2);
  EXPECT_EQ(Servers::of(topology(), kOffsets, 5).end_of_machine(), 30);
}

TEST(OwnerSplit, GroupsByTheRankToAsk) {
  Servers servers = Servers::of(topology(), kOffsets, 1);
  const NodeIndex halo(std::vector<NodeId>{29, 12}, 30);
  servers.halo = &halo;
  OwnerSplit split;
  split.run(std::vector<NodeId>{25, 3, -1, 12, 24, 9, 10, 29}, servers);
  EXPECT_THAT(split.asked(), ElementsAre(6, 0, 4));  // node 10 of rank 2, then 25 and 24 of rank 4
  EXPECT_THAT(split.counts(), ElementsAre(0, 0, 1, 0, 2, 0));
  ASSERT_EQ(split.kept().size(), 2u);
  EXPECT_EQ(split.kept()[0].index, 3);
  EXPECT_EQ(split.kept()[0].position, 1);
  EXPECT_EQ(split.kept()[1].index, 7);
  EXPECT_EQ(split.kept()[1].position, 0);

  split.run({}, servers);  // nothing stays of the run before
  EXPECT_THAT(split.asked(), IsEmpty());
  EXPECT_THAT(split.kept(), IsEmpty());
  EXPECT_THAT(split.counts(), ElementsAre(0, 0, 0, 0, 0, 0));
}

// Every node of another machine stands once in its server's group, in the order given.
TEST(OwnerSplit, LosesNothing) {
  const Servers servers = Servers::of(topology(), kOffsets, 3);
  std::mt19937_64 random(5);
  OwnerSplit split;
  for (const std::size_t count : {1, 7, 1000}) {
    std::vector<NodeId> nodes(count);
    for (NodeId& node : nodes) node = static_cast<NodeId>(random() % 31) - 1;
    split.run(nodes, servers);
    std::vector<std::vector<std::int32_t>> expected(6);
    for (std::size_t i = 0; i < count; ++i) {
      const int machine = nodes[i] < 0 ? 2 : static_cast<int>(nodes[i] / 10);
      if (machine == 2) continue;
      expected[at(topology().rail(3, machine))].push_back(static_cast<std::int32_t>(i));
    }
    std::vector<std::int32_t> all;
    for (std::size_t rank = 0; rank < expected.size(); ++rank) {
      EXPECT_EQ(split.counts()[rank], std::ssize(expected[rank])) << rank;
      all.insert(all.end(), expected[rank].begin(), expected[rank].end());
    }
    EXPECT_THAT(split.asked(), testing::ElementsAreArray(all));
  }
}

TEST(OwnerSplit, RefusesWhatIsNoNode) {
  const Servers servers = Servers::of(topology(), kOffsets, 0);
  OwnerSplit split;
  for (const NodeId bad : {NodeId{-2}, NodeId{30}, std::numeric_limits<NodeId>::max()})
    EXPECT_THROW(split.run(std::vector<NodeId>{bad}, servers), Error) << bad;
}

}  // namespace
}  // namespace strata::store
