// SPDX-License-Identifier: Apache-2.0
#include "strata/plan/keep_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <random>
#include <span>
#include <vector>

namespace strata::plan {
namespace {

constexpr double kNear = 1e-9;

/// A row or a list.
struct Item {
  Keepable kind;
  std::int64_t bytes;
  double saved;
};

std::vector<Item> random_items(int count, std::mt19937_64& random) {
  std::uniform_int_distribution<int> kind(0, kKeepables - 1), bytes(1, 40);
  std::uniform_real_distribution<double> saved(0, 10);
  std::vector<Item> items;
  for (int i = 0; i < count; ++i)
    items.push_back({static_cast<Keepable>(kind(random)), bytes(random), saved(random)});
  return items;
}

std::vector<KeepGroup> groups_of(const std::vector<Item>& items) {
  std::vector<KeepGroup> groups;
  for (const Item& item : items) groups.push_back({item.kind, 1, item.bytes, item.saved});
  return groups;
}

/// The best that any choice of items saves.
double best_of_all_choices(const std::vector<Item>& items, const KeepLimits& limits) {
  double best = 0;
  for (std::uint32_t choice = 0; choice < 1U << items.size(); ++choice) {
    std::int64_t bytes = 0;
    double saved = 0;
    KeepKinds kinds = 0;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if ((choice >> i & 1) == 0) continue;
      bytes += items[i].bytes;
      saved += items[i].saved;
      kinds |= set_of(items[i].kind);
    }
    for (std::size_t kind = 0; kind < kKeepables; ++kind)
      if ((kinds >> kind & 1) != 0) saved -= limits.look_ups[kind];
    if (bytes <= limits.bytes) best = std::max(best, saved);
  }
  return best;
}

/// One item after the other by time per byte, until one does not fit.
double plain_greedy(std::vector<Item> items, std::int64_t budget) {
  std::ranges::stable_sort(items, std::greater<>(),
                           [](const Item& item) { return item.saved / static_cast<double>(item.bytes); });
  double saved = 0;
  for (const Item& item : items) {
    if (item.bytes > budget) break;
    budget -= item.bytes;
    saved += item.saved;
  }
  return saved;
}

TEST(Keep, TakesWhatSavesMostPerByteOfAllKinds) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    std::mt19937_64 random(seed);
    const std::vector<Item> items = random_items(60, random);
    const KeepLimits limits{.bytes = std::uniform_int_distribution<std::int64_t>(0, 1500)(random)};
    const KeepPlan plan = keep(groups_of(items), limits);
    EXPECT_NEAR(plan.saved_seconds, plain_greedy(items, limits.bytes), kNear) << "seed " << seed;
    std::int64_t bytes = 0;
    for (const KeepPlan::Kept& kept : plan.kept) bytes += kept.bytes;
    EXPECT_LE(bytes, limits.bytes) << "seed " << seed;
  }
}

/// Of every set of kinds.
std::array<double, kKeepSets> savings(std::span<const KeepGroup> groups, const KeepLimits& limits) {
  std::array<double, kKeepSets> saved{};
  for (KeepKinds kinds = 0; kinds < kKeepSets; ++kinds)
    saved[kinds] = keep(groups, limits, kinds).saved_seconds;
  return saved;
}

TEST(Keep, IsWithinOneItemOfTheBestChoice) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    std::mt19937_64 random(seed);
    const std::vector<Item> items = random_items(12, random);
    KeepLimits limits{.bytes = std::uniform_int_distribution<std::int64_t>(0, 300)(random)};
    for (double& cost : limits.look_ups) cost = std::uniform_real_distribution<double>(0, 12)(random);
    const auto saved = savings(groups_of(items), limits);
    const double found = saved[best_kinds(saved, 0)], best = best_of_all_choices(items, limits);
    EXPECT_LE(found, best + kNear) << "seed " << seed;
    EXPECT_GE(found, best - 10) << "seed " << seed;
  }
}

TEST(Keep, TakesAGroupInPart) {
  const std::vector<KeepGroup> groups{{Keepable::other_rows, 10, 80, 40e-6},
                                      {Keepable::other_lists, 50, 200, 30e-6}};
  const KeepPlan plan = keep(groups, {.bytes = 100});
  EXPECT_EQ(plan.of(Keepable::other_rows).count, 10);
  EXPECT_EQ(plan.of(Keepable::other_lists).count, 5);
  EXPECT_EQ(plan.of(Keepable::other_lists).bytes, 20);
  EXPECT_NEAR(plan.saved_seconds, 43e-6, kNear);
}

TEST(Keep, LeavesWhatSavesNothing) {
  const std::vector<KeepGroup> groups{{Keepable::other_rows, 10, 80, 0}, {Keepable::own_lists, 5, 10, -1}};
  const KeepPlan plan = keep(groups, {.bytes = 1000});
  for (const KeepPlan::Kept& kept : plan.kept) EXPECT_EQ(kept.count, 0);
}

// Rows save 40 us, of which looking for them takes 50; lists save 30 of which it takes 10.
TEST(BestKinds, LeaveOutAKindWhoseLookUpsTakeLongerThanItSaves) {
  const std::vector<KeepGroup> groups{{Keepable::other_rows, 10, 80, 40e-6},
                                      {Keepable::other_lists, 50, 200, 30e-6}};
  const KeepLimits limits{.bytes = 1000, .look_ups = {0, 0, 50e-6, 10e-6}};
  const auto saved = savings(groups, limits);
  EXPECT_EQ(best_kinds(saved, 0), set_of(Keepable::other_lists));
  EXPECT_EQ(best_kinds(saved, 21e-6), 0U);
}

TEST(BestKinds, AreTheFewestOfThoseThatSaveTheSame) {
  const std::vector<KeepGroup> groups{{Keepable::own_rows, 10, 80, 40e-6}};
  const auto saved = savings(groups, {.bytes = 1000});
  EXPECT_EQ(best_kinds(saved, 0), set_of(Keepable::own_rows));
}

}  // namespace
}  // namespace strata::plan
