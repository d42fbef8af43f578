// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <mutex>
#include <utility>

#include "strata/plan/graph_placement.hpp"

namespace strata::plan {
namespace {

constexpr Count kRankedPerPiece = 1 << 20;

std::vector<double> falling_visits(const BucketMap& map, std::span<const Count> part_nodes) {
  std::vector<double> visits;
  visits.reserve(map.num_buckets());
  for (const Count nodes : part_nodes)
    for (int bucket = 0; bucket < row_buckets::count(nodes); ++bucket)
      visits.push_back(1 / std::sqrt(static_cast<double>(row_buckets::begin(bucket) + 1)));
  return visits;
}

}  // namespace

ListRanking::ListRanking(const Count* indptr, std::vector<Count> part_nodes, std::span<const double> visits,
                         RankShare share, ThreadPool& pool)
    : part_nodes_(std::move(part_nodes)),
      known_(!visits.empty()),
      map_(part_nodes_),
      visits_(visits.begin(), visits.end()) {
  if (!known_) visits_ = falling_visits(map_, part_nodes_);
  entries_.resize(part_nodes_.size() * kLevels);
  std::mutex mutex;
  for (std::size_t part = 0; part < part_nodes_.size(); ++part) {
    const Range rows = share.of({0, part_nodes_[part]});
    pool.parallel_for(rows.count, kRankedPerPiece, [&](Count begin, Count end) {
      std::vector<Count> own(kLevels);
      for_each_list(indptr, part, {rows.first + begin, end - begin},
                    [&](Count, Count degree, int level) { own[at(level)] += degree; });
      const std::lock_guard lock(mutex);
      Count* const sums = entries_.data() + part * kLevels;
      for (std::size_t level = 0; level < kLevels; ++level) sums[level] += own[level];
    });
  }
}

std::vector<HeatCurve> ListRanking::curves(double visits) const {
  if (!known_) return {};
  std::vector<HeatCurve> curves(part_nodes_.size());
  double sum = 0;
  for (std::size_t part = 0; part < part_nodes_.size(); ++part) {
    HeatCurve::Point all;
    for (int level = kLevels - 1; level >= 0; --level) {
      const Count entries = entries_[part * kLevels + at(level)];
      if (entries == 0) continue;
      all.rows += entries;
      all.accesses += static_cast<double>(entries) * DensityLevels::middle(level);
      curves[part].points.push_back(all);
    }
    sum += all.accesses;
  }
  const double scale = sum > 0 ? visits / sum : 0;
  for (HeatCurve& curve : curves)
    for (HeatCurve::Point& point : curve.points) point.accesses *= scale;
  return curves;
}

ListRanking::Cut ListRanking::cut(const Count* indptr, std::size_t part, Count entries,
                                  ThreadPool& pool) const {
  const Count* const of_levels = entries_.data() + part * kLevels;
  Cut cut;
  while (cut.level > 0 && of_levels[cut.level - 1] <= entries - cut.entries)
    cut.entries += of_levels[--cut.level];
  if (--cut.level < 0) return cut;
  // The last level does not fit as a whole: take first the pieces of nodes that fit, then nodes of the next
  // piece.
  const auto sum_of = [&](Range rows) {
    Count sum = 0;
    for_each_list(indptr, part, rows,
                  [&](Count, Count degree, int level) { sum += level == cut.level ? degree : 0; });
    return sum;
  };
  const Count nodes = part_nodes_[part];
  std::vector<Count> sums(at((nodes + kRankedPerPiece - 1) / kRankedPerPiece));
  pool.parallel_for(nodes, kRankedPerPiece, [&](Count begin, Count end) {
    sums[at(begin / kRankedPerPiece)] = sum_of({begin, end - begin});
  });
  for (const Count sum : sums) {
    if (sum > entries - cut.entries) break;
    cut.entries += sum;
    cut.end += kRankedPerPiece;
  }
  bool has_room = true;
  for_each_list(indptr, part, {cut.end, std::min(nodes - cut.end, kRankedPerPiece)},
                [&](Count row, Count degree, int level) {
                  if (level != cut.level || !has_room) return;
                  has_room = degree <= entries - cut.entries;
                  if (!has_room) return;
                  cut.entries += degree;
                  cut.end = row + 1;
                });
  return cut;
}

}  // namespace strata::plan
