// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "strata/util/host_limits.hpp"

namespace strata::comm {

class Machine;

/// What one rank may take of its host: threads, host memory and a GPU. A value.
///
/// The ranks that may run on a processor share it evenly, and the ranks in a control group share what the
/// group may take. So on a host of 16 processors each of 4 ranks has 4 cores, whether each is bound to 4
/// processors, two are bound to each of two sockets, or all are unbound. Each has 2 cores if all are in a
/// group with the CPU time of 8.
struct Resources {
  int cores = 1;        ///< threads of this rank while all ranks of the host work; at least 1
  int cores_alone = 1;  ///< threads of this rank while the other ranks of its machine wait for it
  /// Numbers of `cores` processors that no other rank of the host gets, to bind threads to. Empty if there
  /// are none, because masks overlap in part, there are more ranks than processors, or CPU time has a quota.
  std::vector<int> own_processors;

  int host_ranks = 1;          ///< ranks of its host
  std::vector<int> gpu_ranks;  ///< world ranks that drive the same GPU, including this one; empty on the cpu
  int gpu_sharers() const { return static_cast<int>(gpu_ranks.size()); }

  struct Sharers {
    int of_host = 1, of_machine = 1;  ///< ranks
  };
  /// Ranks that share each control group of this rank (by its name in HostLimits), and the host (the empty
  /// name).
  std::map<std::string, Sharers> sharers;

  /// Host memory that this rank may take now, within the limits of its host and control groups.
  struct FreeMemory {
    std::int64_t share_bytes = 0;  ///< if all ranks of the host take as much
    std::int64_t most_bytes = 0;   ///< if all ranks of its machine take as much, and others take nothing
  };
  FreeMemory free_memory() const;
  /// The same, with `limits` as what is free.
  FreeMemory share_of(const std::vector<HostLimits::FreeMemory>& limits) const;

  /// The resources of a process that shares its host with no rank.
  static Resources of_process();
};

/// The resources of this rank. All ranks of a run find them together when they make their Machine.
const Resources& resources_of(const Machine& machine);

/// Whether all ranks of the machine compute on GPUs. The same on all of them.
bool computes_on_gpus(const Machine& machine);

/// Host memory that the ranks of a machine may take together.
struct FreeHostMemory {
  std::int64_t share_bytes = 0;  ///< if the other machines of the host take as much per rank
  std::int64_t most_bytes = 0;   ///< if they take nothing
};
/// What is free now; the same on all ranks of the machine. Collective over the machine.
FreeHostMemory free_host_memory(const Machine& machine);

/// Bytes that each rank may take of its GPU now. Ranks that drive the same GPU divide it, and the result is
/// the least of the machine; it is 0 if a rank computes on the cpu. Collective over the machine.
std::int64_t free_gpu_bytes_per_rank(const Machine& machine);

}  // namespace strata::comm
