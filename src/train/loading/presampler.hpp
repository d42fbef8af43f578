// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <cstdint>

#include "strata/comm/machine.hpp"
#include "strata/sampling/sampler.hpp"
#include "strata/store/machine_graph.hpp"
#include "strata/util/thread_pool.hpp"

namespace strata::train {

/// Which batches are sampled to learn what of a graph is hot.
struct PresampleOptions {
  const comm::Machine* machine = nullptr;
  ThreadPool* pool = nullptr;        ///< this rank's cores
  sampling::SamplerOptions sampler;  ///< as training's; max_seeds is set here
  Count global_batch = 0;            ///< seeds a step
  std::uint64_t seed = 0;            ///< of the run
  Count max_batches = 0;             ///< a rank
  /// No batch but the first begins that would end later if it took as long as the longest so far.
  std::chrono::duration<double> time_limit{0};
};

/// Samples the first batches of the first epoch, each rank its own as in training, from the structure in host
/// memory with all cores of the machine, and records what they read. On several machines the neighbors of
/// remote nodes are not sampled.
store::Presampling make_presampling(const PresampleOptions& options);

}  // namespace strata::train
