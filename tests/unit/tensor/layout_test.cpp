// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "strata/tensor/array_copies.hpp"
#include "strata/util/error.hpp"
#include "strata/util/ranges.hpp"

namespace strata::tensor {
namespace {

using enum Stratum;

Placement random_placement(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Placement placement;
  for (std::uint64_t i = 0; i < 1 + seed % 20; ++i) {
    const auto rows = [&] { return static_cast<Count>(random() % 3 == 0 ? 0 : random() % 40); };
    placement.segments.push_back({{replicated, rows()}, {striped, rows()}, {host, rows()}});
  }
  return placement;
}

/// Stratum and row of every row, by walking the segments one row at a time.
std::vector<Location> walk(const Placement& placement) {
  std::vector<Location> locations;
  Segment next;
  for (const Segment& s : placement.segments) {
    for (Count i = 0; i < s[replicated]; ++i) locations.push_back({Stratum::replicated, next[replicated]++});
    for (Count i = 0; i < s[striped]; ++i) locations.push_back({Stratum::striped, next[striped]++});
    for (Count i = 0; i < s[host]; ++i) locations.push_back({Stratum::host, next[host]++});
  }
  return locations;
}

TEST(Layout, LocatesEveryRow) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Placement placement = random_placement(seed);
    const Layout layout(placement);
    const std::vector<Location> expected = walk(placement);
    for (std::size_t row = 0; row < expected.size(); ++row) {
      const Location found = locate(layout.segments().data(), static_cast<int>(layout.segments().size()),
                                    static_cast<Count>(row));
      ASSERT_EQ(found.stratum, expected[row].stratum) << "seed " << seed << " row " << row;
      ASSERT_EQ(found.row, expected[row].row) << "seed " << seed << " row " << row;
    }
  }
}

TEST(Layout, CutsRangesIntoRunsOfOneStratum) {
  std::mt19937_64 random(5);
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Placement placement = random_placement(seed);
    const std::vector<Location> expected = walk(placement);
    const Count rows = std::ssize(expected);
    const Count first = static_cast<Count>(random() % static_cast<std::uint64_t>(rows + 1));
    const Count count = static_cast<Count>(random() % static_cast<std::uint64_t>(rows - first + 1));
    Count next = first;
    Layout(placement).for_each_run(first, count, [&](const Layout::Run& run) {
      ASSERT_EQ(run.first, next) << "seed " << seed;
      ASSERT_GT(run.count, 0);
      for (Count i = 0; i < run.count; ++i) {
        ASSERT_EQ(expected[static_cast<std::size_t>(next)].stratum, run.location.stratum) << "seed " << seed;
        ASSERT_EQ(expected[static_cast<std::size_t>(next++)].row, run.location.row + i) << "seed " << seed;
      }
    });
    EXPECT_EQ(next, first + count) << "seed " << seed;
  }
}

TEST(Stripes, GoRoundRobinInBlocks) {
  // Blocks of two rows over three GPUs: rows 0 1 | 2 3 | 4 5 | 6 7 lie on GPUs 0, 1, 2, 0.
  const std::vector<int> gpus{0, 0, 1, 1, 2, 2, 0, 0, 1};
  const std::vector<Count> rows{0, 1, 0, 1, 0, 1, 2, 3, 2};
  for (std::size_t row = 0; row < gpus.size(); ++row) {
    const StripeLocation at = locate_stripe(static_cast<Count>(row), Stripes::of(2, 3));
    EXPECT_EQ(at.gpu, gpus[row]) << row;
    EXPECT_EQ(at.row, rows[row]) << row;
  }
}

TEST(Stripes, MayBeOfAnyLength) {
  // Blocks of three rows over two GPUs: row 7 is the second row of block 2, which is GPU 0's second.
  const StripeLocation at = locate_stripe(7, Stripes::of(3, 2));
  EXPECT_EQ(at.gpu, 0);
  EXPECT_EQ(at.row, 4);
}

TEST(Placement, LaysContiguousBlocksOnGpus) {
  const Placement placement = Placement::contiguous(1000, 300, 3);
  ASSERT_EQ(placement.segments.size(), 1u);
  EXPECT_EQ(placement.segments[0][striped], 900);
  EXPECT_EQ(placement.segments[0][host], 100);
  const Stripes stripes = Stripes::of(placement.stripe_rows, 3);
  for (const Count row : {0, 299, 300, 650, 899}) {
    EXPECT_EQ(locate_stripe(row, stripes).gpu, row / 300);
    EXPECT_EQ(locate_stripe(row, stripes).row, row % 300);
  }
  EXPECT_EQ(Placement::contiguous(10, 300, 3).segments[0][host], 0);
}

TEST(Validate, RefusesWhatDoesNotAddUp) {
  const TensorSpec spec{.name = "features", .rows = 10, .cols = 3};
  EXPECT_NO_THROW(validate(spec, Placement::on_host(10)));
  EXPECT_THROW(validate(spec, Placement::on_host(9)), InputError);
  EXPECT_THROW(validate(spec, {.segments = {{{replicated, -1}, {host, 11}}}}), InputError);
  EXPECT_NO_THROW(validate(spec, {.segments = {{{host, 10}}}, .stripe_rows = 48}));
  EXPECT_THROW(validate(spec, {.segments = {{{host, 10}}}, .stripe_rows = 0}), InputError);
  EXPECT_THROW(validate({.name = "wide", .rows = 1, .cols = Count{1} << 31}, Placement::on_host(1)),
               InputError);
}

TEST(ShareOf, CoversTheWholeEvenly) {
  for (const Count count : {Count{0}, Count{1}, Count{5}, Count{1000}, Count{1} << 61}) {
    for (int size = 1; size <= 7; ++size) {
      Count next = 10;
      for (int rank = 0; rank < size; ++rank) {
        const Range share = share_of({10, count}, rank, size);
        EXPECT_EQ(share.first, next);
        EXPECT_LE(share.count - count / size, 1);
        EXPECT_GE(share.count, count / size);
        next = share.end();
      }
      EXPECT_EQ(next, 10 + count);
    }
  }
}

}  // namespace
}  // namespace strata::tensor
