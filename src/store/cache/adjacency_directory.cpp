// SPDX-License-Identifier: Apache-2.0
#include "cache/adjacency_directory.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace strata::store {
namespace {

constexpr Count kGroupsPerPiece = 1 << 16;
constexpr std::size_t kTiers = 2;  // replicated, striped

/// The copied lists of a part.
struct PartCuts {
  Count first_node;
  plan::ListRanking::Cut replicated, on_gpus;

  static bool has(const plan::ListRanking::Cut& cut, Count row, int level) {
    return level > cut.level || (level == cut.level && row < cut.end);
  }
  /// The tier of a list, or -1 if it has no copy.
  int tier_of(Count row, int level) const {
    return has(replicated, row, level) ? 0 : has(on_gpus, row, level) ? 1 : -1;
  }
};

using TierEntries = std::array<Count, kTiers>;  // of copies
using TierWords = std::array<AdjacencyCacheView::Group*, kTiers>;

class Builder {
 public:
  Builder(const plan::ListRanking& ranking, const Count* indptr, std::span<const PartCuts> parts)
      : ranking_(ranking), indptr_(indptr), parts_(parts) {}

  /// Writes the words of groups [first, end), as if the copies began with these groups; null for a tier
  /// without lists. Returns the number of entries of their copies.
  TierEntries build(Count first, Count end, const TierWords& words) const {
    TierEntries entries{};
    Count next = first;  // group to begin
    const auto begin_groups = [&](Count until) {
      for (; next < until; ++next)
        for (std::size_t t = 0; t < kTiers; ++t)
          if (words[t] != nullptr)
            words[t][next] = static_cast<AdjacencyCacheView::Group>(entries[t])
                             << AdjacencyCacheView::kGroupNodes;
    };
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      const Count first_node = parts_[p].first_node;
      const Count begin = std::max(first * AdjacencyCacheView::kGroupNodes - first_node, Count{0});
      const Count past =
          std::min(end * AdjacencyCacheView::kGroupNodes - first_node, ranking_.part_nodes()[p]);
      if (begin >= past) continue;
      ranking_.for_each_list(indptr_, p, {begin, past - begin}, [&](Count row, Count degree, int level) {
        const int tier = parts_[p].tier_of(row, level);
        if (tier < 0) return;
        const Count node = first_node + row, group = node / AdjacencyCacheView::kGroupNodes;
        begin_groups(group + 1);
        const auto t = at(tier);
        words[t][group] |= AdjacencyCacheView::Group{1} << node % AdjacencyCacheView::kGroupNodes;
        entries[t] += degree;
      });
    }
    begin_groups(end);
    return entries;
  }

 private:
  const plan::ListRanking& ranking_;
  const Count* indptr_;
  std::span<const PartCuts> parts_;
};

}  // namespace

AdjacencyDirectory choose_lists(const plan::ListRanking& ranking, const Count* indptr,
                                const tensor::Placement& wanted, ThreadPool& pool) {
  using enum tensor::Stratum;
  AdjacencyDirectory directory{.replicated = {}, .striped = {}, .placement = wanted, .totals = {}};
  std::vector<PartCuts> parts;
  Count num_nodes = 0;
  for (std::size_t p = 0; p < wanted.segments.size(); ++p) {
    tensor::Segment& segment = directory.placement.segments[p];
    const PartCuts cuts{num_nodes, ranking.cut(indptr, p, segment[replicated], pool),
                        ranking.cut(indptr, p, segment.on_gpus(), pool)};
    segment = {{replicated, cuts.replicated.entries},
               {striped, cuts.on_gpus.entries - cuts.replicated.entries},
               {host, segment.rows() - cuts.on_gpus.entries}};
    directory.totals += segment;
    parts.push_back(cuts);
    num_nodes += ranking.part_nodes()[p];
  }
  if (directory.stripes_all()) return directory;

  const Count num_groups = AdjacencyCacheView::num_groups(num_nodes);
  const auto make = [&](AdjacencyDirectory::Groups& groups, Count entries) -> AdjacencyCacheView::Group* {
    if (entries == 0) return nullptr;
    groups.resize(at(num_groups));
    return groups.data();
  };
  const TierWords words{make(directory.replicated, directory.totals[replicated]),
                        make(directory.striped, directory.totals[striped])};
  std::vector<TierEntries> of_pieces(at((num_groups + kGroupsPerPiece - 1) / kGroupsPerPiece));
  const Builder builder(ranking, indptr, parts);
  pool.parallel_for(num_groups, kGroupsPerPiece, [&](Count first, Count end) {
    of_pieces[at(first / kGroupsPerPiece)] = builder.build(first, end, words);
  });
  TierEntries before{};
  for (TierEntries& piece : of_pieces)
    for (std::size_t t = 0; t < kTiers; ++t) before[t] += std::exchange(piece[t], before[t]);
  pool.parallel_for(num_groups, kGroupsPerPiece, [&](Count first, Count end) {
    const TierEntries& piece = of_pieces[at(first / kGroupsPerPiece)];
    for (std::size_t t = 0; t < kTiers; ++t)
      for (Count group = first; words[t] != nullptr && group < end; ++group)
        words[t][group] += static_cast<AdjacencyCacheView::Group>(piece[t])
                           << AdjacencyCacheView::kGroupNodes;
  });
  return directory;
}

}  // namespace strata::store
