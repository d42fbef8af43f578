// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "strata/plan/density_levels.hpp"
#include "strata/plan/heat.hpp"
#include "strata/util/shares.hpp"
#include "strata/util/thread_pool.hpp"

namespace strata::plan {

/// Ranks the neighbor lists of some parts by how many visits of a batch each of their bytes would serve if it
/// was copied to GPUs. A list in host memory costs one translation of an address, whether it is short or
/// long, so short lists of hot nodes come first. A value.
///
/// Lists are ordered by level (DensityLevels) of visits per entry; within a level by node.
class ListRanking {
 public:
  static constexpr int kLevels = DensityLevels::kLevels;

  ListRanking() = default;
  /// `visits` to a list of each bucket of BucketMap(part_nodes). Empty: they are not known, and assumed to
  /// fall with the square root of a node's position in its part. Looks at this rank's share of the lists with
  /// all threads of the pool.
  ///
  /// indptr  [sum of part_nodes + 1] host
  ListRanking(const Count* indptr, std::vector<Count> part_nodes, std::span<const double> visits,
              RankShare share, ThreadPool& pool);

  std::span<std::int64_t> sums() { return entries_; }  ///< see RankShare

  /// Heat of the entries in the order of the ranking, by part, scaled so that a batch visits `visits` lists.
  /// Empty if visits are not known.
  std::vector<HeatCurve> curves(double visits) const;

  /// The lists that come first in the ranking of a part.
  struct Cut {
    int level = kLevels;  ///< the lists of all higher levels, and of this one ...
    Count end = 0;        ///< ... those of the nodes of the part before
    Count entries = 0;    ///< in all
  };
  /// The first lists that together have at most `entries` entries, up to the first that has no room.
  Cut cut(const Count* indptr, std::size_t part, Count entries, ThreadPool& pool) const;

  std::span<const Count> part_nodes() const { return part_nodes_; }
  /// Calls visit(row of the part, degree, level) for nodes [rows.first, rows.end()) of a part that have
  /// neighbors, ascending.
  template <typename Visit>
  void for_each_list(const Count* indptr, std::size_t part, Range rows, Visit&& visit) const {
    const Count* const begins = indptr + map_.first_row(part);
    for (Count row = rows.first; row < rows.end();) {
      const int bucket = row_buckets::of(row);
      const Count end = std::min(rows.end(), row_buckets::begin(bucket + 1));
      const auto visits = static_cast<float>(visits_[map_.bucket_of_segment(part, bucket)]);
      for (; row < end; ++row) {
        const Count degree = begins[row + 1] - begins[row];
        if (degree > 0) visit(row, degree, DensityLevels::of(visits / static_cast<float>(degree)));
      }
    }
  }

 private:
  std::vector<Count> part_nodes_;
  bool known_ = false;
  BucketMap map_{std::span<const Count>{}};
  std::vector<double> visits_;  // visits to one list, by bucket
  std::vector<Count> entries_;  // by part and level
};

}  // namespace strata::plan
