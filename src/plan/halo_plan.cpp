// SPDX-License-Identifier: Apache-2.0
#include "strata/plan/halo_plan.hpp"

#include <algorithm>

namespace strata::plan {
namespace {

struct Candidate {
  KeepGroup group;
  HaloAmounts::Kept* kept;
  double wire;  ///< bytes of one on the link
};

void append(const std::vector<KeepGroup>& groups, HaloAmounts::Kept& kept, double wire,
            std::vector<Candidate>& candidates) {
  for (const KeepGroup& group : groups)
    if (group.count > 0 && group.saved > 0) candidates.push_back({group, &kept, wire});
}

/// As many of a group as `bytes` hold.
KeepGroup part_of(const KeepGroup& group, std::int64_t bytes) {
  if (group.bytes <= bytes) return group;
  const double share = static_cast<double>(bytes) / static_cast<double>(group.bytes);
  const auto count = static_cast<Count>(share * static_cast<double>(group.count));
  const double taken = static_cast<double>(count) / static_cast<double>(group.count);
  return {count, static_cast<std::int64_t>(taken * static_cast<double>(group.bytes)), taken * group.saved};
}

HaloAmounts take(const HaloOffer& offer, const HaloBudget& budget, const WireBytes& wire) {
  HaloAmounts amounts;
  std::vector<Candidate> candidates;
  if (budget.rows) append(offer.row_groups, amounts.rows, wire.row, candidates);
  if (budget.lists) append(offer.list_groups, amounts.lists, wire.of_list(offer.mean_picks), candidates);
  std::ranges::stable_sort(candidates, [](const Candidate& a, const Candidate& b) {
    return a.group.saved * static_cast<double>(b.group.bytes) >
           b.group.saved * static_cast<double>(a.group.bytes);
  });
  std::int64_t left = budget.bytes;
  for (const Candidate& candidate : candidates) {
    const KeepGroup part = part_of(candidate.group, left);
    candidate.kept->count += part.count;
    candidate.kept->bytes += part.bytes;
    candidate.kept->answered += part.saved / candidate.wire;
    if (part.count < candidate.group.count) break;
    left -= part.bytes;
  }
  return amounts;
}

}  // namespace

bool holds_all(const HaloBudget& budget, const RegionSizes& sizes, Count num_edges, int ranks) {
  const Count others = sizes.num_nodes - sizes.num_local,
              edges = sizes.replicated ? 0 : num_edges - sizes.local_edges;
  std::int64_t bytes = budget.rows ? others * kept_row_bytes(budget.row_bytes, ranks) : 0;
  if (budget.lists)
    bytes += others * kept_list_overhead(sizes.id_bytes(), ranks) + edges * sizes.edge_bytes();
  return bytes <= budget.bytes;
}

Count most_lists(const HaloBudget& budget, const RegionSizes& sizes, int ranks) {
  if (!budget.lists) return 0;
  return std::min<Count>(budget.bytes / kept_list_overhead(sizes.id_bytes(), ranks),
                         sizes.num_nodes - sizes.num_local);
}

HaloAmounts fill_budget(const HaloOffer& offer, const HaloBudget& budget, const WireBytes& wire) {
  constexpr std::int64_t kShareOfGpu = 16;
  const HaloAmounts amounts = take(offer, budget, wire);
  const std::int64_t most = budget.gpu_bytes / kShareOfGpu;
  if (budget.num_gpus == 0 || amounts.lists.bytes <= most) return amounts;
  HaloBudget lists_only = budget, rows_only = budget;
  lists_only.rows = rows_only.lists = false;
  lists_only.bytes = most;
  rows_only.bytes = budget.bytes - most;
  return {.rows = take(offer, rows_only, wire).rows, .lists = take(offer, lists_only, wire).lists};
}

}  // namespace strata::plan
