// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "strata/comm/machine.hpp"

namespace strata::tensor {

/// The distinct GPUs of a machine: those that its ranks drive, in order of the lowest rank that drives each,
/// and then, if asked for, those that no rank drives.
struct GpuMap {
  struct Gpu {
    int owner;  ///< the rank that allocates on it
    int index;  ///< its CUDA ordinal in the owner's process
  };
  std::vector<Gpu> gpus;
  int mine = -1;  ///< this rank's GPU

  int size() const { return static_cast<int>(gpus.size()); }
};

/// Empty if a rank of the machine computes on the cpu. Collective over the machine. `with_idle`: also the
/// GPUs that are visible to a rank and driven by none, owned by the lowest rank that sees them. Only for
/// machines that are alone on their host, since ranks of others may drive them.
GpuMap gpus_of(const comm::Machine& machine, bool with_idle = false);

/// What a rank may place on its GPU, of `budget` bytes per GPU, which the ranks that drive it divide: the
/// least of the machine, so that its ranks plan alike; 0 where one computes on the cpu. Collective over the
/// machine.
std::int64_t gpu_budget(const comm::Machine& machine, std::int64_t budget);

}  // namespace strata::tensor
