#pragma once
#include <bit>
#include <span>
#include <vector>

#include "graph_regions.hpp"
#include "strata/store/machine_graph.hpp"
#include "strata/store/planner.hpp"

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

/// The nodes of a bucket.
struct NodeGroup {
  Count nodes = 0;
  double occurrences = 0;       ///< in the neighbour lists of this machine
  std::vector<double> sampled;  ///< by fanout: sum over the nodes of min(degree, fanout)
};

/// By segment, in the order of the rows.
struct NodeHeat {
  std::vector<std::vector<NodeGroup>> segments;
};

/// What count_heat() looks at: the structure of a machine in host memory.
struct HeatSource {
  const GraphView& graph;
  std::span<const Count> part_rows;  ///< of the hosted parts; they add up to graph.num_local
  std::span<const int> fanouts;
  Count max_entries = 200'000'000;  ///< of `indices` at most; of longer ones evenly spread pieces are read
};

/// A pass over `indices` and `indptr`, in which every rank and core takes a share. The same on all ranks.
/// Collective over the machine.
NodeHeat count_heat(const comm::Machine& machine, const HeatSource& source);

/// What a batch of one rank is expected to read on its machine.
struct BatchAccesses {
  std::vector<HeatCurve> features;  ///< distinct rows, by segment
  double lists = 0;                 ///< nodes whose neighbours are sampled, summed over the hops
  double neighbors = 0;             ///< entries of `indices`
  double nodes = 0;                 ///< source nodes, summed over the layers
};

/// Expects a drawn neighbour to be a node with a probability proportional to its occurrences, seeds to be any
/// node, and other machines to ask for as much as is asked of them. A node is read once a batch however often
/// it is drawn: of n nodes of a bucket, m draws that fall into it find n (1 - exp(-m / n)).
BatchAccesses expect_accesses(const NodeHeat& heat, const BatchShape& batch);

/// The feature rows' curves from counted accesses; the ranks' counts add up. Collective over the machine.
std::vector<HeatCurve> curves_of_counts(const comm::Machine& machine, const AccessCounts& counts,
                                        std::span<const Count> part_rows);

}  // namespace strata::store
