#pragma once
#include <vector>

#include "strata/comm/machine.hpp"

namespace strata::store {

/// The distinct GPUs of a machine's ranks, in order of the lowest rank that drives each.
struct GpuMap {
  std::vector<int> owner;  ///< by GPU: the lowest rank that drives it
  int mine = -1;           ///< this rank's GPU
  int sharers = 1;         ///< ranks of the machine that drive the same GPU as this one

  int size() const { return static_cast<int>(owner.size()); }
};

/// Empty if a rank of the machine computes on the cpu. Collective over the machine.
GpuMap gpus_of(const comm::Machine& machine);

}  // namespace strata::store
