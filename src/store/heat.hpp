// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <bit>
#include <optional>
#include <span>
#include <vector>

#include "cache/read_counts.hpp"
#include "graph_regions.hpp"
#include "strata/placement/planner.hpp"
#include "strata/store/machine_graph.hpp"

/// How hot the rows of a machine's parts are: measured by occurrences, or by counted accesses.
namespace strata::store {

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

/// What count_heat() looks at: the structure of a machine in host memory.
struct HeatSource {
  const GraphView& graph;
  std::span<const Count> part_rows;  ///< of the hosted parts, graph.num_local in all; then of the halo
  std::span<const int> fanouts;
  std::span<const std::uint32_t> halo_occurrences = {};  ///< of the halo's rows
  Count max_entries = 200'000'000;  ///< of `indices` at most; of longer ones evenly spread pieces are read
};

/// A pass over `indices` and `indptr`, in which every rank and core takes a share. The same on all ranks.
/// Collective over the machine.
NodeHeat count_heat(const comm::Machine& machine, const HeatSource& source);

/// What a batch of one rank is expected to read on its machine.
struct BatchAccesses {
  std::vector<placement::HeatCurve> features;  ///< distinct rows, by segment
  /// Visits to lists, by segment: of their entries in the order in which lists are copied (ListRanking);
  /// empty: how hot which is, is not known.
  std::vector<placement::HeatCurve> list_visits = {};
  double lists = 0;                          ///< nodes whose neighbors are sampled, summed over the hops
  double neighbors = 0;                      ///< entries of `indices`
  double nodes = 0;                          ///< source nodes, summed over the layers
  std::vector<double> visits_per_list = {};  ///< of the nodes of each bucket, all segments after each other
};

/// Expects a drawn neighbor to be a node with a probability proportional to its occurrences, seeds to be any
/// node, and other machines to ask for as much as is asked of them. A node is read once a batch however often
/// it is drawn: of n nodes of a bucket, m draws that fall into it find n (1 - exp(-m / n)).
BatchAccesses expect_accesses(const NodeHeat& heat, const BatchShape& batch);

/// Adds up what batches of a rank read, in memory of a few KiB.
class AccessCounter {
 public:
  /// `part_rows` as in HeatSource; `halo` finds the halo's rows, null: none.
  AccessCounter(const GraphView& graph, std::span<const Count> part_rows, const NodeIndex* halo = nullptr);

  void add(const BatchReads& batch);

  struct Mean {
    BatchAccesses accesses;
    Count batches = 0;  ///< of all ranks
  };
  /// Of a batch, over those of all ranks; nothing if none read a feature row of this machine. Other machines
  /// are taken to read as many rows here as are read there, of the same heat as those of this machine's
  /// nodes. Collective over the machine.
  std::optional<Mean> mean(const comm::Machine& machine) const;

 private:
  BucketMap map_;
  NodeId first_node_;
  Count num_local_;
  const NodeIndex* halo_;
  std::vector<std::int64_t> rows_;  // by bucket
  Count local_inputs_ = 0, other_inputs_ = 0, lists_ = 0, neighbors_ = 0, nodes_ = 0, batches_ = 0;
};

/// The tables of rows that a machine reads.
struct ReadTables {
  std::span<const Count> part_rows;  ///< as in HeatSource
  const NodeIndex* halo = nullptr;   ///< of the last segment; null: none
};

/// Of a batch, on average over those that were counted: what this machine's ranks read here and, where
/// `served` is given, what those of other machines do. Lists are those of this machine's nodes. Nothing if no
/// row of this machine was read. Collective over the machine.
std::optional<AccessCounter::Mean> mean_accesses(const comm::Machine& machine, const ReadCounts& counts,
                                                 const ServedReads* served, const ReadTables& tables);

}  // namespace strata::store
