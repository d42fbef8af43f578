// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <span>
#include <vector>

#include "strata/comm/machine.hpp"
#include "strata/util/random.hpp"
#include "strata/util/types.hpp"

namespace strata::batches {

/// Which seeds a rank trains on in a step. The machines decide only WHO trains a seed, never WHICH seeds a
/// step has.
///
/// A bijection keyed by (seed, epoch) permutes the nodes, of which each is a seed once an epoch. Step s of an
/// epoch is the slice [s * global_batch, (s + 1) * global_batch). A seed goes to the machine that owns it. A
/// machine's seeds of the step are put in order of their parts, and of their clusters within them where there
/// are any, and split evenly among its ranks, so that a rank samples few of them and its batch has fewer
/// distinct nodes.
///
///     machine with parts {0..9}, {10..19}; its seeds 12 3 7 15 1 18, two ranks: 3 7 1 and 12 15 18
///     the same with odd nodes in cluster 0 and even ones in cluster 1 of each part: 3 7 1 and 15 12 18
///
/// Or each rank has nodes of its own, and its seeds of step s are the slice [s * n, (s + 1) * n) of them,
/// with n = global_batch / ranks. A rank whose nodes are used up gets steps without seeds until the last
/// rank's are.
class SeedSchedule {
 public:
  struct Options {
    /// Global ids of all nodes of an epoch, ordered by original id so that steps do not depend on the parts.
    /// Must outlive the schedule.
    std::span<const NodeId> nodes;
    bool shuffle = true;     ///< false: every epoch has this order
    bool drop_last = false;  ///< an epoch has no last step of fewer seeds
    /// Parallel to `nodes`: in which order this machine's seeds are dealt instead of that of their parts, as
    /// store::MachineGraph::train_clusters(). Must outlive the schedule. Empty: none.
    std::span<const std::int32_t> clusters = {};
    std::span<const NodeId> machine_offsets;
    /// Of this machine's parts, [parts + 1]: from its own machine offset to the next. Must outlive the
    /// schedule. Empty: one part.
    std::span<const NodeId> part_offsets = {};
    int machine = 0, local_rank = 0, machine_ranks = 1;
    Count global_batch = 0;
    std::uint64_t seed = 0;
    /// `nodes` are this rank's own, of this machine; these are the numbers that all ranks have. Empty:
    /// `nodes` are all ranks'.
    std::vector<Count> nodes_of_rank = {};
  };
  explicit SeedSchedule(const Options& options);

  Count num_seeds() const { return num_seeds_; }  ///< of all ranks
  Count steps_per_epoch() const { return steps_; }
  /// Steps of an epoch of so many seeds.
  static Count num_steps(Count num_seeds, Count global_batch) {
    return (num_seeds + global_batch - 1) / global_batch;
  }
  /// Number of seeds of all ranks in steps [first, last) of an epoch.
  Count num_global_seeds(Count first, Count last) const;
  Count max_seeds() const;  ///< most seeds that one rank can get in a step

  struct Step {
    std::vector<NodeId> seeds;  ///< of this rank
    std::vector<Count> places;  ///< where each of them is in Options::nodes
    Count num_global = 0;       ///< of all ranks

    void add(NodeId seed, std::size_t place) {
      seeds.push_back(seed);
      places.push_back(static_cast<Count>(place));
    }
  };
  Step step(std::uint32_t epoch, Count step_in_epoch) const;

 private:
  /// The order of an epoch.
  class Order;
  /// A seed of this machine, and the part or cluster that it is in.
  struct Seed {
    NodeId node;
    std::size_t place;
    std::int32_t group;
  };
  std::vector<Seed> own_seeds(Count first, Count last, const Order& order) const;
  struct Share {
    Count begin, end;
  };
  Share share_of(Count count) const;
  /// The seeds of a step among `nodes` nodes that are cut into slices of `batch`; none after the last.
  Share slice(Count step, Count nodes, Count batch) const;
  bool has_own_nodes() const { return !options_.nodes_of_rank.empty(); }
  Count own_batch() const { return options_.global_batch / std::ssize(options_.nodes_of_rank); }
  bool has_groups() const {
    return options_.machine_ranks > 1 && (!options_.clusters.empty() || options_.part_offsets.size() > 2);
  }

  Options options_;
  Count num_seeds_ = 0, steps_ = 0;
  bool owns_all_ = false;  // this machine owns all nodes of an epoch
};

}  // namespace strata::batches
