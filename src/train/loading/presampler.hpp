// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <cstdint>

#include "strata/comm/machine.hpp"
#include "strata/sampling/sampler.hpp"
#include "strata/store/machine_graph.hpp"
#include "strata/util/thread_pool.hpp"

namespace strata::train {

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
};

/// Samples the first batches of the first epoch and records what they read. Each rank samples its own
/// batches, as in training, from the structure in host memory; together the ranks use all cores of the
/// machine. On several machines the neighbors of remote nodes are not sampled.
store::Presampling make_presampling(const PresampleOptions& options);

}  // namespace strata::train
