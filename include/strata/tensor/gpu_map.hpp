// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "strata/comm/machine.hpp"

namespace strata::tensor {

/// The distinct GPUs of a machine. The GPUs that its ranks drive come first, in order of the lowest rank that
/// drives each; GPUs that no rank drives follow if they were asked for.
struct GpuMap {
  struct Gpu {
    int owner;  ///< the rank that allocates on it
    int index;  ///< its CUDA ordinal in the owner's process
  };
  std::vector<Gpu> gpus;
  int mine = -1;  ///< index in `gpus` of this rank's GPU; -1: none

  int size() const { return static_cast<int>(gpus.size()); }
};

/// The GPUs of a machine; none if one of its ranks computes on the cpu. Collective over the machine.
/// `with_idle` adds the GPUs that a rank sees and no rank drives; the lowest rank that sees one owns it. Ask
/// for them only on a machine that has its host for itself, because ranks of another machine may drive them.
GpuMap gpus_of(const comm::Machine& machine, bool with_idle = false);

/// Bytes that a rank may place on its GPU. The ranks that drive one GPU divide its `budget` bytes. The result
/// is the least of the machine, so that its ranks plan alike; it is 0 if one of them computes on the cpu.
/// Collective over the machine.
std::int64_t gpu_budget(const comm::Machine& machine, std::int64_t budget);

}  // namespace strata::tensor
