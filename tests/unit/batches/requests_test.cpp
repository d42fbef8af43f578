// SPDX-License-Identifier: Apache-2.0
#include "rows/requests.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "strata/util/error.hpp"
#include "support/topologies.hpp"

namespace strata::batches {
namespace {

using testing::ElementsAre;

/// Machines of 2, 1 and 3 ranks, in this order.
comm::Topology topology() { return test::topology_of({0, 0, 1, 2, 2, 2}); }

const std::vector<NodeId> kOffsets{0, 10, 20, 20 + 10};

/// Ids whose order is not known.
FetchedIds ids_of(const std::vector<NodeId>& ids) { return {.ids = ids.data(), .count = std::ssize(ids)}; }

TEST(SplitRequests, SortsIdsByServer) {
  const store::Servers servers = store::Servers::of(topology(), kOffsets, 1);
  const std::vector<NodeId> ids{25, 3, -1, 12, 29, 9, 10};
  std::vector<NodeId> local(ids.size());
  std::vector<std::int32_t> positions(ids.size(), -7);
  const Requests requests = split_requests(ids_of(ids), servers, {local.data(), positions.data()});
  EXPECT_THAT(local, ElementsAre(-1, 3, -1, -1, -1, 9, -1));
  EXPECT_THAT(requests.remote_ids, ElementsAre(10, 12, 25, 29));
  EXPECT_THAT(positions, ElementsAre(6, 3, 0, 4, -7, -7, -7));
  EXPECT_THAT(requests.first_of_rank, ElementsAre(0, 0, 0, 2, 2, 4, 4));
  EXPECT_EQ(requests.count_for(2), 2);
  EXPECT_EQ(requests.largest(), 2);
}

TEST(SplitRequests, SortWhatIsAskedOfAServer) {
  const std::vector<NodeId> offsets{0, 1000, 5000};
  const comm::Topology two = test::topology_of({0, 1});
  const store::Servers servers = store::Servers::of(two, offsets, 0);
  std::mt19937_64 random(4);
  for (const std::size_t runs : {1, 2, 3, 7}) {  // of ascending ids, as hops give them
    std::vector<NodeId> ids(3000);
    for (NodeId& id : ids) id = static_cast<NodeId>(random() % 5000);
    for (std::size_t run = 0; run < runs; ++run)
      std::sort(ids.begin() + static_cast<std::ptrdiff_t>(run * ids.size() / runs),
                ids.begin() + static_cast<std::ptrdiff_t>((run + 1) * ids.size() / runs));
    std::vector<NodeId> local(ids.size());
    std::vector<std::int32_t> positions(ids.size(), -7);
    const Requests requests = split_requests(ids_of(ids), servers, {local.data(), positions.data()});
    EXPECT_TRUE(std::ranges::is_sorted(requests.remote_ids));
    EXPECT_EQ(std::ssize(requests.remote_ids), std::ranges::count(local, -1));
    for (std::size_t i = 0; i < requests.remote_ids.size(); ++i)
      ASSERT_EQ(ids[at(positions[i])], requests.remote_ids[i]);
  }
}

TEST(SplitRequests, ReadRowsOfTheHaloHere) {
  store::Servers servers = store::Servers::of(topology(), kOffsets, 0);
  const std::vector<NodeId> kept{29, 12};
  const store::NodeIndex halo(kept, 30);
  servers.halo = &halo;
  const std::vector<NodeId> ids{25, 3, 12, 29, -1, 10};
  std::vector<NodeId> local(ids.size());
  std::vector<std::int32_t> positions(ids.size(), -7);
  const Requests requests = split_requests(ids_of(ids), servers, {local.data(), positions.data()});
  EXPECT_THAT(local, ElementsAre(-1, 3, 11, 10, -1, -1));  // the halo's rows follow rows 0 to 9
  EXPECT_THAT(requests.remote_ids, ElementsAre(10, 25));
  EXPECT_THAT(positions, ElementsAre(5, 0, -7, -7, -7, -7));
  EXPECT_EQ(requests.cached, 2);
}

// Whatever is asked for, also of machines whose ranks are numbered in another order, or own nothing.
TEST(SplitRequests, AreTheSameForIdsWhoseOrderIsKnown) {
  constexpr NodeId kNodes = 3000;
  const std::vector<NodeId> offsets{0, 1000, 1000, 1700, kNodes};
  std::mt19937_64 random(6);
  std::vector<NodeId> kept;
  for (NodeId node = 0; node < kNodes; node += 7) kept.push_back(node);
  const store::NodeIndex halo(kept, kNodes);
  for (const std::size_t count : {0, 1, 40, 5000}) {
    for (const int machine : {0, 1, 3}) {
      for (const bool with_halo : {false, true}) {
        SCOPED_TRACE(testing::Message() << count << " ids on machine " << machine << ", halo " << with_halo);
        const store::Servers servers{.machine_offsets = offsets,
                                     .machine = machine,
                                     .rank_of_machine = {4, 1, 0, 3},
                                     .num_ranks = 5,
                                     .halo = with_halo ? &halo : nullptr};
        std::vector<NodeId> ids(count), sorted;
        for (NodeId& id : ids) id = static_cast<NodeId>(random() % kNodes);
        std::vector<std::int32_t> order(count);
        for (std::size_t i = 0; i < count; ++i) order[i] = static_cast<std::int32_t>(i);
        std::ranges::stable_sort(order, {}, [&](std::int32_t i) { return ids[at(i)]; });
        for (const std::int32_t i : order) sorted.push_back(ids[at(i)]);

        std::vector<NodeId> local(count, -7), expected_local(count, -7);
        std::vector<std::int32_t> positions(count, -7), expected_positions(count, -7);
        const Requests expected =
            split_requests(ids_of(ids), servers, {expected_local.data(), expected_positions.data()});
        const Requests actual = split_requests({.ids = ids.data(),
                                                .count = std::ssize(ids),
                                                .sorted = sorted.data(),
                                                .sorted_positions = order.data()},
                                               servers, {local.data(), positions.data()});
        EXPECT_EQ(actual.remote_ids, expected.remote_ids);
        EXPECT_EQ(actual.first_of_rank, expected.first_of_rank);
        EXPECT_EQ(actual.cached, expected.cached);
        EXPECT_EQ(local, expected_local);
        for (std::size_t i = 0; i < count; ++i) {
          ASSERT_EQ(positions[i] < 0, expected_positions[i] < 0);  // equal ids may change places
          if (positions[i] < 0) continue;
          ASSERT_EQ(ids[at(positions[i])], actual.remote_ids[i]);
        }
      }
    }
  }
}

TEST(SplitRequests, RefusesIdsOutOfRange) {
  const store::Servers servers = store::Servers::of(topology(), kOffsets, 0);
  std::vector<NodeId> local(1);
  std::vector<std::int32_t> positions(1);
  for (const NodeId bad : {NodeId{-2}, NodeId{30}, std::numeric_limits<NodeId>::max()}) {
    EXPECT_THROW(split_requests({.ids = &bad, .count = 1}, servers, {local.data(), positions.data()}), Error)
        << bad;
    EXPECT_THROW(
        split_requests({.ids = &bad, .count = 1, .sorted = &bad, .sorted_positions = positions.data()},
                       servers, {local.data(), positions.data()}),
        Error)
        << bad;
  }
}

}  // namespace
}  // namespace strata::batches
