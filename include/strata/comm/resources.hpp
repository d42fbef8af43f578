// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "strata/util/host_limits.hpp"

namespace strata::comm {

class Machine;

/// What one rank may take of its host: threads, host memory, the GPU. A value.
///
/// A processor is shared evenly by the ranks that may run on it, and what a control group may take by the
/// ranks that are in it. So on a host of 16 processors, each of 4 ranks has 4 cores: bound to 4 each, two to
/// each of two sockets, or all unbound; and 2, if all are in a group with the CPU time of 8.
struct Resources {
  int cores = 1;        ///< threads of this rank while all ranks of the host work; at least 1
  int cores_alone = 1;  ///< its threads while the other ranks of its machine wait for it
  /// Numbers of `cores` processors that no other rank of the host is given, to bind threads to; empty where
  /// there are none: masks that overlap in part, more ranks than processors, or a quota of CPU time.
  std::vector<int> own_processors;

  int host_ranks = 1;          ///< ranks of its host
  std::vector<int> gpu_ranks;  ///< world ranks that drive the same GPU, this one among them; empty on the cpu
  int gpu_sharers() const { return static_cast<int>(gpu_ranks.size()); }

  struct Sharers {
    int of_host = 1, of_machine = 1;  ///< ranks
  };
  /// Of each control group of this rank (by HostLimits' name), and of the host (the empty name).
  std::map<std::string, Sharers> sharers;

  /// Host memory that this rank may take now, as its host and its control groups leave it.
  struct FreeMemory {
    std::int64_t share_bytes = 0;  ///< if all ranks of the host take as much
    std::int64_t most_bytes = 0;   ///< if all ranks of its machine do, and others take nothing
  };
  FreeMemory free_memory() const;
  /// Where these are what is free.
  FreeMemory share_of(const std::vector<HostLimits::FreeMemory>& limits) const;

  /// Of a process that shares its host with no rank.
  static Resources of_process();
};

/// Of this rank. All ranks of a run find theirs together when they make their Machine.
const Resources& resources_of(const Machine& machine);

/// Do all ranks of the machine compute on GPUs? The same on all of them.
bool computes_on_gpus(const Machine& machine);

/// Host memory that the ranks of a machine may take together.
struct FreeHostMemory {
  std::int64_t share_bytes = 0;  ///< if the other machines of the host take as much per rank
  std::int64_t most_bytes = 0;   ///< if they take nothing
};
/// Now; the same on all of its ranks. Collective over the machine.
FreeHostMemory free_host_memory(const Machine& machine);

/// What each rank may take of its GPU now, where ranks that drive one divide it: the least of the machine; 0
/// where a rank computes on the cpu. Collective over the machine.
std::int64_t free_gpu_bytes_per_rank(const Machine& machine);

}  // namespace strata::comm
