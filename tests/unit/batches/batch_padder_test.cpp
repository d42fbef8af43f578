// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>

#include "strata/batches/batch.hpp"
#include "support/expect_error.hpp"

namespace strata::batches {
namespace {

using testing::ElementsAre;
using Kind = PaddedArray::Kind;

/// Rooms for 4, 6 and 8 nodes, and a batch of 3 seeds, 4 and 7 nodes.
class PadsBatches : public testing::Test {
 protected:
  const PaddedRooms rooms{.nodes = {4, 6, 8}, .edges = {6, 12}, .spare = {1, 2, 1}};
  const HopCounts counts{.nodes = {3, 4, 7}, .edges = {5, 9}};
  ThreadPool pool{2};

  template <typename To, typename From>
  std::vector<To> padded(PaddedArray array, const std::vector<From>& source, std::size_t size, To poison,
                         Count row_items = 1) {
    std::vector<To> to(size, poison);
    array.to = to.data();
    const BatchPadder padder(rooms, {array}, {});
    const PaddingSource from{.data = source.data(), .rows = std::ssize(source) / row_items};
    padder.pad(counts, {{from}}, {}, pool);
    return to;
  }
};

TEST_F(PadsBatches, PutsRowsOfNodesAndSeedsHopByHop) {
  std::vector<std::int64_t> ids;
  for (std::int64_t node = 0; node < 14; ++node) ids.push_back(100 + node);
  EXPECT_THAT(padded<std::int64_t>({.kind = Kind::nodes, .row_bytes = 8}, ids, 18, -7),
              ElementsAre(100, 101, 102, 0, 103, 104, 105, 106, 0, 0, 107, 108, 109, 110, 111, 112, 113, 0));
  const std::vector<std::int64_t> labels{5, 6, 7};
  EXPECT_THAT(padded<std::int64_t>({.kind = Kind::seeds, .row_bytes = 8, .fill = -100}, labels, 4, -7),
              ElementsAre(5, 6, 7, -100));
  const std::vector<float> sets{1, 2, 3, 4, 5, 6};
  EXPECT_THAT(padded<float>({.kind = Kind::seeds, .row_bytes = 8}, sets, 8, -7.0F, 2),
              ElementsAre(1, 2, 3, 4, 5, 6, 0, 0));
  const auto mask = padded<std::uint8_t>({.kind = Kind::seed_mask}, std::vector<std::uint8_t>{}, 4, 9);
  EXPECT_THAT(mask, ElementsAre(1, 1, 1, 0));
}

TEST_F(PadsBatches, LetsPaddingEdgesJoinSpareRowsOnly) {
  const std::vector<std::int64_t> starts{0, 2, 4, 5};
  EXPECT_THAT(padded<std::int64_t>({.kind = Kind::starts}, starts, 5, -7), ElementsAre(0, 2, 4, 5, 6));
  const std::vector<std::int32_t> sources{0, 3, 4, 5, 6};
  EXPECT_THAT(padded<std::int32_t>({.kind = Kind::sources}, sources, 6, -7), ElementsAre(0, 4, 5, 6, 7, 9));
  const std::vector<std::int64_t> out_starts{0, 1, 1, 1, 2, 3, 4, 5};
  EXPECT_THAT(padded<std::int64_t>({.kind = Kind::out_starts}, out_starts, 11, -7),
              ElementsAre(0, 1, 1, 1, 1, 2, 3, 4, 5, 5, 6));
  const std::vector<std::int32_t> ends{0, 0, 1, 1, 2};
  EXPECT_THAT(padded<std::int32_t>({.kind = Kind::out_ends}, ends, 6, -7), ElementsAre(0, 0, 1, 1, 2, 3));
}

TEST_F(PadsBatches, PutsEdgesOfAllHopsOneAfterTheOther) {
  const std::vector<std::int64_t> sources{3, 4, 5, 6, 0, 7, 8, 9, 10, 11, 12, 13, 0, 3};
  EXPECT_THAT(padded<std::int64_t>({.kind = Kind::all_sources}, sources, 18, -7),
              ElementsAre(4, 5, 6, 7, 0, 9, 10, 11, 12, 13, 14, 15, 16, 0, 4, 17, 17, 17));
  const std::vector<std::int64_t> ends{0, 0, 1, 1, 2, 0, 1, 2, 3, 4, 5, 6, 6, 6};
  EXPECT_THAT(padded<std::int64_t>({.kind = Kind::all_ends}, ends, 18, -7),
              ElementsAre(0, 0, 1, 1, 2, 3, 0, 1, 2, 4, 5, 6, 7, 7, 7, 9, 9, 9));
  const std::vector<std::int64_t> ids{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
  EXPECT_THAT(padded<std::int64_t>({.kind = Kind::all_edges, .row_bytes = 8}, ids, 18, -7),
              ElementsAre(1, 2, 3, 4, 5, 0, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0, 0, 0));
  const std::vector<std::int64_t> of_hop{6, 7, 8, 9, 10, 11, 12, 13, 14};
  EXPECT_THAT(padded<std::int64_t>({.kind = Kind::edges, .hop = 1, .row_bytes = 8}, of_hop, 12, -7),
              ElementsAre(6, 7, 8, 9, 10, 11, 12, 13, 14, 0, 0, 0));
}

TEST_F(PadsBatches, RefusesArraysOfOtherRowsAndTooManyHops) {
  const std::vector<std::int64_t> ids(13);
  test::expect_error<InputError>(
      [&] { padded<std::int64_t>({.kind = Kind::nodes, .row_bytes = 8}, ids, 18, -7); },
      {"has 13 rows, where its hops have 14"});
  const std::vector<Count> nine(9, 1), ten(10, 1);
  test::expect_error<InputError>([&] { BatchPadder({.nodes = ten, .edges = nine, .spare = ten}, {}, {}); },
                                 {"9 hops"});
}

}  // namespace
}  // namespace strata::batches
