// SPDX-License-Identifier: Apache-2.0
#include "strata/plan/keep_plan.hpp"

#include <algorithm>
#include <bit>
#include <vector>

namespace strata::plan {
namespace {

/// The groups of `kinds` that save something, the most per byte first.
std::vector<KeepGroup> ranked(std::span<const KeepGroup> groups, KeepKinds kinds) {
  std::vector<KeepGroup> ranked;
  std::ranges::copy_if(groups, std::back_inserter(ranked), [&](const KeepGroup& group) {
    return (set_of(group.kind) & kinds) != 0 && group.count > 0 && group.saved_seconds > 0;
  });
  std::ranges::stable_sort(ranked, [](const KeepGroup& a, const KeepGroup& b) {
    return a.saved_seconds * static_cast<double>(b.bytes) > b.saved_seconds * static_cast<double>(a.bytes);
  });
  return ranked;
}

/// As many of a group as `bytes` hold.
KeepPlan::Kept part_of(const KeepGroup& group, std::int64_t bytes) {
  if (group.bytes <= bytes) return {group.count, group.bytes, group.saved_seconds};
  const double share = static_cast<double>(bytes) / static_cast<double>(group.bytes);
  const auto count = static_cast<Count>(share * static_cast<double>(group.count));
  const double taken = static_cast<double>(count) / static_cast<double>(group.count);
  return {count, static_cast<std::int64_t>(taken * static_cast<double>(group.bytes)),
          taken * group.saved_seconds};
}

}  // namespace

KeepPlan keep(std::span<const KeepGroup> groups, const KeepLimits& limits, KeepKinds kinds) {
  KeepPlan plan;
  std::int64_t left = limits.bytes;
  for (const KeepGroup& group : ranked(groups, kinds)) {
    const KeepPlan::Kept part = part_of(group, left);
    KeepPlan::Kept& kept = plan.kept[index_of(group.kind)];
    kept.count += part.count;
    kept.bytes += part.bytes;
    kept.saved_seconds += part.saved_seconds;
    if (part.count < group.count) break;
    left -= part.bytes;
  }
  for (std::size_t kind = 0; kind < kKeepables; ++kind)
    if (plan.kept[kind].count > 0)
      plan.saved_seconds += plan.kept[kind].saved_seconds - limits.look_ups[kind];
  return plan;
}

KeepKinds best_kinds(std::span<const double, kKeepSets> saved, double least) {
  KeepKinds best = 0;
  for (KeepKinds kinds = 1; kinds < kKeepSets; ++kinds) {
    if (saved[kinds] < least || saved[kinds] <= 0) continue;
    const bool fewer = std::popcount(kinds) < std::popcount(best);
    if (best == 0 || saved[kinds] > saved[best] || (saved[kinds] == saved[best] && fewer)) best = kinds;
  }
  return best;
}

}  // namespace strata::plan
