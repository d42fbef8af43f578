// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <span>
#include <vector>

#include "strata/comm/machine.hpp"
#include "strata/util/random.hpp"
#include "strata/util/types.hpp"

namespace strata::train {

/// Which seeds a rank trains on in a step. The machines decide only WHO trains a seed, never WHICH seeds a
/// step has.
///
/// A bijection keyed by (seed, epoch) permutes the training nodes, which are in the order of their original
/// ids. Step s of an epoch is the slice [s * global_batch, (s + 1) * global_batch). A seed goes to the
/// machine that owns it. A machine's seeds of the step are put in order of their parts and split evenly among
/// its ranks, so that a rank samples few parts and its batch has fewer distinct nodes.
///
///     machine with parts {0..9}, {10..19}; its seeds 12 3 7 15 1 18, two ranks: 3 7 1 and 12 15 18
class SeedSchedule {
 public:
  struct Options {
    /// Global ids of all training nodes of the graph, ordered by original id; must outlive the schedule.
    std::span<const NodeId> train_nodes;
    std::span<const NodeId> machine_offsets;
    /// Of this machine's parts, [parts + 1]: from its own machine offset to the next. Must outlive the
    /// schedule. Empty: one part.
    std::span<const NodeId> part_offsets = {};
    int machine = 0, local_rank = 0, machine_ranks = 1;
    Count global_batch = 0;
    std::uint64_t seed = 0;
  };
  explicit SeedSchedule(const Options& options);

  Count num_seeds() const { return static_cast<Count>(options_.train_nodes.size()); }
  Count steps_per_epoch() const { return num_steps(num_seeds(), options_.global_batch); }
  /// Of an epoch of so many seeds.
  static Count num_steps(Count num_seeds, Count global_batch) {
    return (num_seeds + global_batch - 1) / global_batch;
  }
  /// Of all ranks in steps [first, last) of an epoch.
  Count num_global_seeds(Count first, Count last) const {
    return std::min(last * options_.global_batch, num_seeds()) - first * options_.global_batch;
  }
  Count max_seeds() const;  ///< most seeds that one rank can get in a step

  struct Step {
    std::vector<NodeId> seeds;  ///< of this rank
    Count num_global = 0;       ///< of all ranks
  };
  Step step(std::uint32_t epoch, Count step_in_epoch) const;

 private:
  std::vector<NodeId> own_seeds(Count first, Count last, const Shuffle& order) const;
  struct Share {
    Count begin, end;
  };
  Share share_of(Count count) const;
  bool has_parts() const { return options_.machine_ranks > 1 && options_.part_offsets.size() > 2; }
  std::vector<NodeId> in_order_of_parts(std::vector<NodeId> own) const;
  NodeId node_of(Count position, const Shuffle& order) const {
    return options_.train_nodes[order(static_cast<std::uint64_t>(position))];
  }

  Options options_;
  bool owns_all_ = false;  // this machine owns all training nodes
};

}  // namespace strata::train
