// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "strata/plan/planner.hpp"
#include "strata/util/shares.hpp"
#include "strata/util/thread_pool.hpp"
#include "strata/util/types.hpp"

/// How hot the rows of a machine's parts are: expected from occurrences, or from counted accesses.
namespace strata::plan {

/// The batches of a run, as far as the placement must know them.
struct BatchShape {
  Count seeds = 1024;                      ///< per rank
  std::vector<int> fanouts = {15, 10, 5};  ///< from the seeds outwards; -1: all neighbors
};

/// What one batch of a rank reads of a graph's structure and features.
struct BatchReads {
  std::span<const NodeId> input_nodes;  ///< distinct
  std::vector<Count> visited = {};      ///< by hop: so many of the first input nodes' neighbors are sampled
  Count lists = 0;                      ///< nodes whose neighbors are sampled, summed over the hops
  Count neighbors = 0;                  ///< entries of `indices`
  Count nodes = 0;                      ///< source nodes, summed over the layers
};

/// A rank of a machine, which takes an even share of what all of its ranks count together. Counters have
/// sums() of this rank's share, which whoever runs the ranks adds up before a result is taken.
struct RankShare {
  int rank = 0, ranks = 1;
  Range of(Range whole) const { return share_of(whole, rank, ranks); }
};

/// Buckets of rows of a segment, finer where rows are hotter: each of the first 32 rows has its own, then an
/// octave has 16.
namespace row_buckets {

constexpr int kPerOctave = 16;

constexpr int of(Count row) {
  if (row < 2 * kPerOctave) return static_cast<int>(row);
  const int shift = std::bit_width(static_cast<std::uint64_t>(row)) - std::bit_width(2u * kPerOctave - 1);
  return shift * kPerOctave + static_cast<int>(row >> shift);
}
constexpr Count begin(int bucket) {
  if (bucket < 2 * kPerOctave) return bucket;
  const int shift = bucket / kPerOctave - 1;
  return static_cast<Count>(bucket - shift * kPerOctave) << shift;
}
constexpr int count(Count rows) { return rows == 0 ? 0 : of(rows - 1) + 1; }

}  // namespace row_buckets

/// Where the buckets of each segment lie in one array of sums.
class BucketMap {
 public:
  explicit BucketMap(std::span<const Count> part_rows) {
    for (const Count rows : part_rows) {
      first_row_.push_back(first_row_.back() + rows);
      first_bucket_.push_back(first_bucket_.back() + static_cast<std::size_t>(row_buckets::count(rows)));
    }
  }
  std::size_t num_buckets() const { return first_bucket_.back(); }
  std::size_t num_segments() const { return first_row_.size() - 1; }
  std::size_t segment_of(Count row) const {
    if (num_segments() == 1) return 0;
    return static_cast<std::size_t>(std::ranges::upper_bound(first_row_, row) - first_row_.begin()) - 1;
  }
  Count first_row(std::size_t segment) const { return first_row_[segment]; }
  std::size_t bucket_of(Count row) const {
    const std::size_t s = segment_of(row);
    return bucket_of_segment(s, row_buckets::of(row - first_row_[s]));
  }
  std::size_t bucket_of_segment(std::size_t segment, int bucket) const {
    return first_bucket_[segment] + static_cast<std::size_t>(bucket);
  }
  /// Calls visit(segment, bucket, rows), ascending.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (std::size_t s = 0; s < num_segments(); ++s) {
      const Count rows = first_row_[s + 1] - first_row_[s];
      for (int b = 0; b < row_buckets::count(rows); ++b) {
        visit(s, first_bucket_[s] + static_cast<std::size_t>(b),
              std::min(rows, row_buckets::begin(b + 1)) - row_buckets::begin(b));
      }
    }
  }

 private:
  std::vector<Count> first_row_ = {0};
  std::vector<std::size_t> first_bucket_ = {0};
};

/// The nodes of a bucket.
struct NodeGroup {
  Count nodes = 0;
  double occurrences = 0;       ///< in the neighbor lists of this machine
  std::vector<double> sampled;  ///< by fanout: sum over the nodes of min(degree, fanout)
};

/// By segment, in the order of the rows.
struct NodeHeat {
  std::vector<std::vector<NodeGroup>> segments;
};

/// The structure of a machine in host memory, as HeatCounter looks at it.
struct HeatSource {
  NodeId first_node = 0;             ///< of those with lists here
  Count num_local = 0;               ///< rows of the hosted parts
  const Count* indptr = nullptr;     ///< [num_local + 1]
  IdSpan indices;                    ///< global ids
  std::span<const Count> part_rows;  ///< of the hosted parts; then of the halo
  std::span<const int> fanouts;
  std::span<const std::uint32_t> halo_occurrences = {};  ///< of the halo's rows
  Count max_entries = 200'000'000;  ///< of `indices` at most; of longer ones evenly spread pieces are read
};

/// Counts in a pass over `indices` and `indptr` how often nodes occur and how long lists are. A value.
class HeatCounter {
 public:
  /// Counts this rank's share with all threads of the pool. The source must outlive the call only.
  HeatCounter(const HeatSource& source, RankShare share, ThreadPool& pool);

  std::span<std::int64_t> sums() { return sums_; }
  NodeHeat heat() const;  ///< of the sums over all ranks

 private:
  BucketMap map_;
  std::size_t num_fanouts_;
  Count stride_;                    // of the blocks that are read
  std::vector<std::int64_t> sums_;  // occurrences by bucket, then what each fanout samples of each bucket
};

/// What a batch of one rank is expected to read on its machine.
struct BatchAccesses {
  std::vector<HeatCurve> features;  ///< distinct rows, by segment
  /// Visits to lists, by segment: of their entries in the order in which lists are copied (ListRanking);
  /// empty: how hot which is, is not known.
  std::vector<HeatCurve> list_visits = {};
  double lists = 0;                          ///< nodes whose neighbors are sampled, summed over the hops
  double neighbors = 0;                      ///< entries of `indices`
  double nodes = 0;                          ///< source nodes, summed over the layers
  std::vector<double> visits_per_list = {};  ///< of the nodes of each bucket, all segments after each other
};

/// Expects a drawn neighbor to be a node with a probability proportional to its occurrences, seeds to be any
/// node, and other machines to ask for as much as is asked of them. A node is read once a batch however often
/// it is drawn: of n nodes of a bucket, m draws that fall into it find n (1 - exp(-m / n)).
BatchAccesses expect_accesses(const NodeHeat& heat, const BatchShape& batch);

/// What was counted of presampled batches, summed over them.
struct CountedReads {
  std::span<const std::int64_t> rows;  ///< by bucket
  Count lists = 0, neighbors = 0, nodes = 0;
  Count batches = 0;
};

/// Of a batch, on average. Reads of the first `own_segments` count `own_factor` times.
BatchAccesses mean_accesses(const BucketMap& map, const CountedReads& counted, std::size_t own_segments = 0,
                            double own_factor = 1);

}  // namespace strata::plan
