// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>

#include "cache/adjacency_directory.hpp"
#include "strata/plan/graph_placement.hpp"

namespace strata::store {
namespace {

using enum tensor::Stratum;

/// Parts with random lists, one in six of them empty, and visits that fall from bucket to bucket, not always;
/// some buckets have none.
/// The same on all ranks.
struct Lists {
  std::vector<Count> part_nodes, indptr = {0};
  std::vector<double> visits;  // by bucket
  std::vector<std::size_t> first_node = {0};
  plan::BucketMap map;

  Lists(std::vector<Count> nodes, std::uint64_t seed) : part_nodes(std::move(nodes)), map(part_nodes) {
    std::mt19937_64 random(seed);
    const auto degree_of = [](std::uint64_t bits) {  // skewed: half of the lists are of at most 7
      return static_cast<Count>(bits % 6 == 0 ? 0
                                              : bits / 6 % (Count{8} << std::countr_zero(bits >> 20 | 64)));
    };
    for (const Count part : part_nodes) {
      for (Count row = 0; row < part; ++row) indptr.push_back(indptr.back() + degree_of(random()));
      for (int bucket = 0; bucket < plan::row_buckets::count(part); ++bucket)
        visits.push_back(static_cast<double>(random() % 4) / (1 + bucket));
      first_node.push_back(static_cast<std::size_t>(indptr.size()) - 1);
    }
  }

  Count num_nodes() const { return std::ssize(indptr) - 1; }
  Count degree(std::size_t node) const { return indptr[node + 1] - indptr[node]; }
  Count entries(std::size_t part) const { return indptr[first_node[part + 1]] - indptr[first_node[part]]; }
  double visits_to(std::size_t part, std::size_t node) const {
    return visits[plan::BucketMap(part_nodes)
                      .bucket_of_segment(part,
                                         plan::row_buckets::of(static_cast<Count>(node - first_node[part])))];
  }
  double key(std::size_t part, std::size_t node) const {
    return visits_to(part, node) / static_cast<double>(degree(node));
  }
  std::vector<std::size_t> nodes_of(std::size_t part) const {
    std::vector<std::size_t> nodes(first_node[part + 1] - first_node[part]);
    std::iota(nodes.begin(), nodes.end(), first_node[part]);
    return nodes;
  }
  /// Most visits that lists of `entries` in all can have; of the last one a piece.
  double most_visits(std::size_t part, Count entries) const {
    std::vector<std::size_t> nodes = nodes_of(part);
    std::erase_if(nodes, [&](std::size_t node) { return degree(node) == 0; });
    std::ranges::sort(nodes, std::greater<>(), [&](std::size_t node) { return key(part, node); });
    double sum = 0;
    for (const std::size_t node : nodes) {
      const Count taken = std::min(entries, degree(node));
      sum += visits_to(part, node) * static_cast<double>(taken) / static_cast<double>(degree(node));
      entries -= taken;
    }
    return sum;
  }
};

/// As two ranks rank them together.
plan::ListRanking rank(const Lists& lists, std::span<const double> visits) {
  ThreadPool pool(2);
  plan::ListRanking sum(lists.indptr.data(), lists.part_nodes, visits, {0, 2}, pool),
      other(lists.indptr.data(), lists.part_nodes, visits, {1, 2}, pool);
  std::ranges::transform(sum.sums(), other.sums(), sum.sums().begin(), std::plus<>());
  return sum;
}
plan::ListRanking rank(const Lists& lists) { return rank(lists, lists.visits); }

constexpr double kLevel = 1.0 / 16;  // relative width of a level

TEST(ListRanking, HasTheCurvesOfTheMostVisitsAByte) {
  const Lists lists({3000, 0, 1, 1777}, 1);
  double all = 0;
  for (std::size_t part = 0; part < 4; ++part) all += lists.most_visits(part, lists.entries(part));
  const auto curves = rank(lists).curves(all);
  ASSERT_EQ(curves.size(), 4u);
  double sum = 0;
  for (std::size_t part = 0; part < 4; ++part) {
    EXPECT_EQ(curves[part].rows(), lists.entries(part));
    sum += curves[part].accesses();
    for (const double share : {0.01, 0.1, 0.3, 0.7, 1.0}) {
      const auto entries = static_cast<Count>(share * static_cast<double>(lists.entries(part)));
      const double most = lists.most_visits(part, entries);
      EXPECT_NEAR(curves[part].accesses_below(entries), most, kLevel * most) << part << ": " << share;
    }
  }
  EXPECT_NEAR(sum, all, 1e-6 * all);
}

TEST(ListRanking, HasNoCurvesWhereVisitsAreNotKnown) {
  const Lists lists({500}, 2);
  EXPECT_TRUE(rank(lists, {}).curves(100).empty());
}

/// Where each copied list lies among the copies, from 0; -1: it stays on the host, or is empty.
std::vector<Count> positions_of(const Lists& lists, const AdjacencyDirectory& directory) {
  const Count num_entries = lists.indptr.back();
  const AdjacencyCacheView copies{
      .replicated = directory.replicated.empty() ? nullptr : directory.replicated.data(),
      .striped = directory.striped.empty() ? nullptr : directory.striped.data(),
      .first_replicated = num_entries,
      .first_striped = num_entries + directory.totals[replicated]};
  std::vector<Count> positions;
  for (Count node = 0; node < lists.num_nodes(); ++node) {
    const Count begin = lists.indptr[static_cast<std::size_t>(node)];
    const Count at = position_of_list(copies, lists.indptr.data(), node, begin);
    EXPECT_TRUE(at >= num_entries || at == begin) << node;
    positions.push_back(begin < num_entries && at >= num_entries ? at - num_entries : -1);
  }
  return positions;
}

/// The copies of a tier lie behind each other in the order of their nodes.
void expect_packed(const Lists& lists, const std::vector<Count>& positions, Range tier) {
  Count next = tier.first;
  for (std::size_t node = 0; node < positions.size(); ++node) {
    if (positions[node] < tier.first || positions[node] >= tier.end()) continue;
    ASSERT_EQ(positions[node], next) << node;
    next += lists.degree(node);
  }
  EXPECT_EQ(next, tier.end());
}

/// As many of the best lists of a part as fit in the first `wanted` entries; those of positions below `end`.
void expect_best(const Lists& lists, const std::vector<Count>& positions, std::size_t part, Count wanted,
                 Count end) {
  double visits = 0, best_outside = 0, worst_inside = 1e300;
  Count entries = 0, longest = 0;
  for (const std::size_t node : lists.nodes_of(part)) {
    if (lists.degree(node) == 0) continue;
    longest = std::max(longest, lists.degree(node));
    if (positions[node] < 0 || positions[node] >= end) {
      best_outside = std::max(best_outside, lists.key(part, node));
      continue;
    }
    entries += lists.degree(node);
    visits += lists.visits_to(part, node);
    worst_inside = std::min(worst_inside, lists.key(part, node));
  }
  EXPECT_LE(entries, wanted);
  EXPECT_GE(entries, std::min(wanted - longest + 1, lists.entries(part)));
  EXPECT_LE(best_outside * (1 - kLevel), worst_inside);
  EXPECT_GE(visits, (1 - kLevel) * lists.most_visits(part, entries));
}

struct Requested {
  double replicated, striped;
};

tensor::Placement placement_of(const Lists& lists, const Requested& requested) {
  tensor::Placement placement;
  for (std::size_t part = 0; part < lists.part_nodes.size(); ++part) {
    const auto entries = static_cast<double>(lists.entries(part));
    tensor::Segment segment{{replicated, static_cast<Count>(requested.replicated * entries)},
                            {striped, static_cast<Count>(requested.striped * entries)}};
    if (requested.replicated + requested.striped == 1)
      segment[striped] = lists.entries(part) - segment[replicated];
    segment[host] = lists.entries(part) - segment.on_gpus();
    placement.segments.push_back(segment);
  }
  return placement;
}

TEST(ChooseLists, TakesTheBestOfEachPart) {
  ThreadPool pool(2);
  const Lists lists({1500, 0, 5, 777}, 3);  // parts begin and end within groups
  const plan::ListRanking ranking = rank(lists);
  for (const Requested& requested :
       {Requested{0.15, 0}, {0.0, 0.3}, {0.2, 0.3}, {0.001, 0.001}, {0.4, 0.6}, {0, 0}, {1, 0}}) {
    SCOPED_TRACE(testing::Message() << requested.replicated << " replicated, " << requested.striped
                                    << " striped");
    const tensor::Placement wanted = placement_of(lists, requested);
    const AdjacencyDirectory directory = choose_lists(ranking, lists.indptr.data(), wanted, pool);
    const std::vector<Count> positions = positions_of(lists, directory);
    const tensor::Segment& totals = directory.totals;
    EXPECT_EQ(totals.rows(), lists.indptr.back());
    expect_packed(lists, positions, {0, totals[replicated]});
    expect_packed(lists, positions, {totals[replicated], totals[striped]});
    for (std::size_t part = 0; part < 4; ++part) {
      const tensor::Segment& asked = wanted.segments[part];
      expect_best(lists, positions, part, asked[replicated], totals[replicated]);
      expect_best(lists, positions, part, asked[replicated] + asked[striped],
                  totals[replicated] + totals[striped]);
      EXPECT_EQ(directory.placement.segments[part].rows(), lists.entries(part));
    }
  }
}

TEST(ChooseLists, LeavesPositionsAsTheyAreWhereAllAreStriped) {
  ThreadPool pool(1);
  const Lists lists({100, 30}, 4);
  const AdjacencyDirectory directory =
      choose_lists(rank(lists), lists.indptr.data(), placement_of(lists, {0, 1}), pool);
  EXPECT_TRUE(directory.stripes_all());
  EXPECT_TRUE(directory.striped.empty());
}

// Of more nodes than a thread takes at a time.
TEST(ChooseLists, PacksTheListsOfManyNodes) {
  ThreadPool pool(2);
  const Lists lists({1'048'000, 3, 3'000}, 5);
  const tensor::Placement wanted = placement_of(lists, {0.2, 0.1});
  const AdjacencyDirectory directory = choose_lists(rank(lists), lists.indptr.data(), wanted, pool);
  const std::vector<Count> positions = positions_of(lists, directory);
  expect_packed(lists, positions, {0, directory.totals[replicated]});
  expect_packed(lists, positions, {directory.totals[replicated], directory.totals[striped]});
  expect_best(lists, positions, 2, wanted.segments[2][replicated], directory.totals[replicated]);
}

TEST(ChooseLists, TakesShortListsOfFirstNodesWhereVisitsAreNotKnown) {
  ThreadPool pool(1);
  Lists lists({400}, 6);
  lists.visits.clear();
  for (int bucket = 0; bucket < plan::row_buckets::count(400); ++bucket)
    lists.visits.push_back(1 / std::sqrt(static_cast<double>(plan::row_buckets::begin(bucket) + 1)));
  const plan::ListRanking ranking = rank(lists, {});
  const tensor::Placement wanted = placement_of(lists, {0.3, 0});
  const AdjacencyDirectory directory = choose_lists(ranking, lists.indptr.data(), wanted, pool);
  expect_best(lists, positions_of(lists, directory), 0, wanted.segments[0][replicated],
              directory.totals[replicated]);
}

}  // namespace
}  // namespace strata::store
