// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "strata/plan/halo_plan.hpp"
#include "strata/plan/placement.hpp"
#include "strata/util/ranges.hpp"
#include "strata/util/threads.hpp"
#include "strata/util/types.hpp"

namespace strata::plan {

/// How many bytes there are of what saves how much per byte, with 16 levels per octave. Sums of integers, so
/// that they do not depend on who adds what when.
class DensityLevels {
 public:
  static constexpr int kLevels = 1 << 12;
  /// The exponent of the density and four bits of its fraction.
  static int of(double saved_per_byte) {
    return static_cast<int>(std::bit_cast<std::uint32_t>(static_cast<float>(saved_per_byte)) >> kDroppedBits);
  }
  /// The middle of a level; the lowest one has what saves nothing.
  static double middle(int level) {
    if (level == 0) return 0;
    return std::bit_cast<float>(static_cast<std::uint32_t>(level) << kDroppedBits | 1U << (kDroppedBits - 1));
  }

  void add(int level, std::int64_t bytes) {
    ++sums_[at(2 * level)];
    sums_[at(2 * level + 1)] += bytes;
  }
  std::span<std::int64_t> sums() { return sums_; }  ///< see RankShare

  Count total_count() const;
  /// One per level that has anything.
  std::vector<KeepGroup> groups() const;

  /// The best that take `bytes`: all of `level` and higher ones, and of the next lower one `rest` bytes.
  struct Cut {
    int level = kLevels;
    std::int64_t rest = 0;
  };
  Cut cut(std::int64_t bytes) const;

 private:
  static constexpr int kDroppedBits = 19;
  Count count_of(int level) const { return sums_[at(2 * level)]; }
  std::int64_t bytes_of(int level) const { return sums_[at(2 * level + 1)]; }

  std::vector<std::int64_t> sums_ = std::vector<std::int64_t>(2 * kLevels);  // counts and bytes by level
};

// How hot the rows of a machine's parts are: expected from occurrences, or from counted accesses.

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
      first_bucket_.push_back(first_bucket_.back() + at(row_buckets::count(rows)));
    }
  }
  std::size_t num_buckets() const { return first_bucket_.back(); }
  std::size_t num_segments() const { return first_row_.size() - 1; }
  std::size_t segment_of(Count row) const {
    if (num_segments() == 1) return 0;
    return at(std::ranges::upper_bound(first_row_, row) - first_row_.begin()) - 1;
  }
  Count first_row(std::size_t segment) const { return first_row_[segment]; }
  std::size_t bucket_of(Count row) const {
    const std::size_t s = segment_of(row);
    return bucket_of_segment(s, row_buckets::of(row - first_row_[s]));
  }
  std::size_t bucket_of_segment(std::size_t segment, int bucket) const {
    return first_bucket_[segment] + at(bucket);
  }
  /// Calls visit(segment, bucket, rows), ascending.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (std::size_t s = 0; s < num_segments(); ++s) {
      const Count rows = first_row_[s + 1] - first_row_[s];
      for (int b = 0; b < row_buckets::count(rows); ++b) {
        visit(s, first_bucket_[s] + at(b), std::min(rows, row_buckets::begin(b + 1)) - row_buckets::begin(b));
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

/// How hot other machines' nodes are. Pure functions.
///
/// Two things tell it: how often a node occurs in this machine's lists, which is known of every node, and how
/// often presampled batches met it, which is what batches do, but of few batches. The first gives an
/// expectation, the second corrects it (HaloHeat).

/// Nodes that occur equally often. The last class has all that occur more often than the others.
inline constexpr std::size_t kHeatClasses = 1 << 12;
constexpr std::size_t heat_class(std::uint32_t occurrences) {
  return occurrences < kHeatClasses ? occurrences : kHeatClasses - 1;
}

/// Sums over the nodes of a class, of how often presampled batches read their rows and visited their lists.
struct HeatClass {
  std::int64_t nodes = 0;
  std::int64_t rows = 0, squared_rows = 0;
  std::int64_t visits = 0, squared_visits = 0;

  void add(std::uint32_t node_rows, std::uint32_t node_visits) {
    const auto r = static_cast<std::int64_t>(node_rows), v = static_cast<std::int64_t>(node_visits);
    ++nodes;
    rows += r, squared_rows += r * r;
    visits += v, squared_visits += v * v;
  }
};

/// What one batch of a rank reads of other machines' nodes.
struct HaloReads {
  double rows = 0;
  std::vector<double> visits;  ///< by hop: lists
  Count batches = 0;           ///< of all ranks of the machine, in which this was counted; 0: it is expected

  double all_visits() const;
};

/// What the structure lets expect: draws of neighbors that fall on other machines' nodes in proportion to
/// their entries in this machine's lists, each time on a node that was not drawn yet.
struct HaloStructure {
  Count own_nodes = 0, other_nodes = 0;
  double mean_degree = 0;
  double remote_share = 0;  ///< of the entries
};
HaloReads expect_reads(const HaloStructure& structure, const BatchShape& batch);

/// How often a batch of a rank is expected to read a node's row, and to visit its list.
///
/// A class of nodes that occur w times is read with the probability p = 1 - exp(-D w), where D is such that
/// these add up to the reads of a batch; a list is visited as often as the sum of this over the hops. Of B
/// presampled batches that met a node c times, a gamma distribution of mean p and shape a then expects
/// p (a + c) / (a + B p). The counts themselves say how far the structure can be trusted: a is the shape for
/// which they spread as they do. Where any node's count is what p says, a is infinite and p stays; where
/// training nodes are in one corner of a graph, a is near 0 and the counts decide.
class HaloHeat {
 public:
  /// `classes` [kHeatClasses]
  HaloHeat(std::span<const HeatClass> classes, HaloReads reads);

  double rows(std::size_t heat_class, std::uint32_t counted) const { return rows_.of(heat_class, counted); }
  double visits(std::size_t heat_class, std::uint32_t counted) const {
    return visits_.of(heat_class, counted);
  }
  const HaloReads& reads() const { return reads_; }
  /// Picks of a visit to a list of this degree, on average over the hops.
  double picks(Count degree, std::span<const int> fanouts) const;

 private:
  struct Posterior {
    std::vector<double> expected;  // by class
    double shape = 0;              // a; 0: the counts tell nothing
    double batches = 0;
    bool infinite = true;

    double of(std::size_t heat_class, std::uint32_t counted) const;
    void trust(std::span<const HeatClass> classes, std::int64_t HeatClass::*sum,
               std::int64_t HeatClass::*squared, Count num_batches);
  };

  HaloReads reads_;
  Posterior rows_, visits_;
};

}  // namespace strata::plan
