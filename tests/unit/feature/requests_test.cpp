#include "requests.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "strata/util/error.hpp"

namespace strata::feature {
namespace {

using testing::ElementsAre;

/// Machines of 2, 1 and 3 ranks, in this order.
comm::Topology topology() {
  comm::Topology topology;
  int machine = 0;
  for (const int ranks : {2, 1, 3}) {
    topology.machines.emplace_back();
    for (int local = 0; local < ranks; ++local) {
      topology.machines.back().push_back(static_cast<int>(topology.ranks.size()));
      topology.ranks.push_back({.host = "h",
                                .machine = machine,
                                .local_rank = local,
                                .host_rank = 0,
                                .device = {},
                                .gpu_uuid = {}});
    }
    ++machine;
  }
  return topology;
}

const std::vector<NodeId> kOffsets{0, 10, 20, 20 + 10};

TEST(Servers, AreRailAligned) {
  EXPECT_THAT(Servers::of(topology(), kOffsets, 1).rank_of_machine, ElementsAre(1, 2, 4));
  EXPECT_THAT(Servers::of(topology(), kOffsets, 5).rank_of_machine, ElementsAre(0, 2, 5));
  EXPECT_EQ(Servers::of(topology(), kOffsets, 5).machine, 2);
}

TEST(SplitRequests, SortsIdsByServer) {
  const Servers servers = Servers::of(topology(), kOffsets, 1);
  const std::vector<NodeId> ids{25, 3, -1, 12, 29, 9, 10};
  std::vector<NodeId> local(ids.size());
  std::vector<std::int32_t> positions(ids.size(), -7);
  const Requests requests = split_requests(ids, servers, {local.data(), positions.data()});
  EXPECT_THAT(local, ElementsAre(-1, 3, -1, -1, -1, 9, -1));
  EXPECT_THAT(requests.remote_ids, ElementsAre(12, 10, 25, 29));
  EXPECT_THAT(positions, ElementsAre(3, 6, 0, 4, -7, -7, -7));
  EXPECT_THAT(requests.first_of_rank, ElementsAre(0, 0, 0, 2, 2, 4, 4));
  EXPECT_EQ(requests.count_for(2), 2);
  EXPECT_EQ(requests.largest(), 2);
}

TEST(SplitRequests, RefusesIdsOutOfRange) {
  const Servers servers = Servers::of(topology(), kOffsets, 0);
  std::vector<NodeId> local(1);
  std::vector<std::int32_t> positions(1);
  for (const NodeId bad : {NodeId{-2}, NodeId{30}, std::numeric_limits<NodeId>::max()}) {
    EXPECT_THROW(split_requests(std::vector<NodeId>{bad}, servers, {local.data(), positions.data()}), Error)
        << bad;
  }
}

}  // namespace
}  // namespace strata::feature
