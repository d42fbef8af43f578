// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <cstdint>
#include <limits>

#include "strata/comm/machine.hpp"
#include "strata/sampling/sampler.hpp"
#include "strata/store/machine_graph.hpp"
#include "strata/util/thread_pool.hpp"

namespace strata::batches {

/// Which batches are sampled to find what is hot in a graph.
struct PresampleOptions {
  const comm::Machine* machine = nullptr;
  ThreadPool* pool = nullptr;        ///< this rank's cores
  sampling::SamplerOptions sampler;  ///< as in training, except for max_seeds, which presampling sets
  Count global_batch = 0;            ///< seeds per step
  std::uint64_t seed = 0;            ///< of the run
  Count max_batches = 0;             ///< a rank
  /// After the first batch, a batch begins only if it would end in time when it takes as long as the longest
  /// so far.
  std::chrono::duration<double> time_limit{0};
  /// Where the machines sample together (Presampling::Source::ranks): batches of a rank at most, and no
  /// further one after some rank has sampled so many nodes, summed over the layers.
  Count max_shared_batches = 0, max_shared_nodes = std::numeric_limits<Count>::max();
};

/// Samples the first batches of the first epoch and records what they read. Each rank samples its own
/// batches, as in training, from the structure in host memory; together the ranks use all cores of the
/// machine. Neighbors of other machines' nodes are sampled only where the machines sample together.
store::Presampling make_presampling(const PresampleOptions& options);

}  // namespace strata::batches
