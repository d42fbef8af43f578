// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strata/comm/communicator.hpp"
#include "strata/util/system.hpp"
#include "strata/util/text.hpp"
#include "strata/util/types.hpp"

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

struct TopologyOptions {
  /// 0: one machine per host; N: virtual machines of N consecutive ranks of a host.
  int ranks_per_machine = 0;
  enum class Compute { automatic, cpu, cuda } compute = Compute::automatic;
  /// The GPU that this rank computes on, among those that it sees; without it the ranks of a host take
  /// theirs in turn. Ranks may differ.
  std::optional<int> gpu = {};
};

/// The machine, host and device of every rank of the run. The same on all ranks.
struct Topology {
  struct Rank {
    std::string host;
    int machine = 0;       ///< machines are numbered by their lowest world rank
    int local_rank = 0;    ///< within the machine
    int host_rank = 0;     ///< within the host
    Device device;         ///< what the rank computes on, numbered as its own process sees it
    std::string gpu_uuid;  ///< empty for the cpu
  };
  std::vector<Rank> ranks;                 ///< by world rank
  std::vector<std::vector<int>> machines;  ///< world ranks of each machine, by local rank
  bool virtual_machines = false;
  bool gpu_per_rank = false;  ///< every rank has a GPU that no other rank has, so NCCL can be used

  int num_machines() const { return static_cast<int>(machines.size()); }
  int ranks_on_host(int world_rank) const;  ///< number of ranks on the same host

  /// The world rank of `machine` that serves requests of world rank `asker`. Rail-aligned: local rank l asks
  /// local rank l mod R of the R ranks.
  int rail(int asker, int machine) const {
    const auto& peers = machines[at(machine)];
    return peers[at(ranks[at(asker)].local_rank) % peers.size()];
  }
};

/// Finds hosts, machines and devices. Collective over `world`. Throws InputError on all ranks if a GPU is
/// asked for where there is none, or if the ranks of a host are not divisible by ranks_per_machine.
Topology discover(const Communicator& world, const TopologyOptions& options);

/// The ranks that share memory with this one, with a communicator of their own. An owner of the communicator.
class Machine {
 public:
  Machine(const Communicator& world, const Topology& topology);  ///< collective over world

  int rank() const { return communicator_.rank(); }
  int size() const { return communicator_.size(); }
  int index() const { return index_; }
  Device device() const { return device_; }
  const Communicator& communicator() const { return communicator_; }
  void barrier() const { communicator_.barrier(); }
  void close() { communicator_.close(); }  ///< collective over the machine

  /// Communicator::together over the ranks of the machine.
  template <typename Work>
  void together(Work&& work) const {
    communicator_.together(std::forward<Work>(work));
  }

 private:
  Communicator communicator_;
  int index_ = 0;
  Device device_;
};

}  // namespace strata::comm

namespace strata {

template <>
inline constexpr auto enum_names<comm::TopologyOptions::Compute> =
    std::to_array<EnumName<comm::TopologyOptions::Compute>>({{comm::TopologyOptions::Compute::automatic,
                                                              "auto"},
                                                             {comm::TopologyOptions::Compute::cpu, "cpu"},
                                                             {comm::TopologyOptions::Compute::cuda, "cuda"}});

}  // namespace strata

namespace strata::comm {

/// This rank among the others: all ranks of the run, where they are, and those of its machine. What it may
/// take of its host is resources_of(*machine). A view: what it points to outlives every copy.
/// Its calls are not collective, and safe from several threads; those of `world` and `machine` follow
/// Communicator.
struct Ranks {
  const Communicator* world = nullptr;  ///< over all ranks
  const Topology* topology = nullptr;   ///< of the ranks of `world`
  const Machine* machine = nullptr;

  Device device() const { return machine->device(); }
  bool on_several_machines() const { return topology->num_machines() > 1; }
};

/// World ranks that compute on this kind of device. A run may have ranks on GPUs and on the cpu; a decision
/// that leads to a collective must depend on these lists, not on the device of one rank.
std::vector<int> ranks_on(const Topology& topology, Device::Kind kind);

/// Text for people: "rank 3 (host a)", "ranks 0, 1 (host a), 5 (host b)".
std::string names_of_ranks(const std::vector<int>& ranks, const std::vector<std::string>& host_of_rank);
std::string names_of_ranks(const std::vector<int>& ranks, const Topology& topology);

}  // namespace strata::comm
