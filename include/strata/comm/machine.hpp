// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "strata/comm/communicator.hpp"
#include "strata/util/enum_names.hpp"
#include "strata/util/types.hpp"

namespace strata::comm {

struct TopologyOptions {
  int ranks_per_machine = 0;  ///< 0: one machine a host; N: virtual machines of N consecutive ranks of a host
  enum class Compute { automatic, cpu, cuda } compute = Compute::automatic;
};

/// Where every rank of the run is. The same on all ranks.
struct Topology {
  struct Rank {
    std::string host;
    int machine = 0;       ///< machines are numbered by their lowest world rank
    int local_rank = 0;    ///< within the machine
    int host_rank = 0;     ///< within the host
    Device device;         ///< what it computes on, numbered as its own process sees it
    std::string gpu_uuid;  ///< empty for the cpu
  };
  std::vector<Rank> ranks;                 ///< by world rank
  std::vector<std::vector<int>> machines;  ///< world ranks of each machine, by local rank
  bool virtual_machines = false;
  bool gpu_per_rank = false;  ///< every rank has a GPU that no other rank has: NCCL can be used

  int num_machines() const { return static_cast<int>(machines.size()); }
  int ranks_on_host(int world_rank) const;  ///< free memory and cores are divided by this

  /// The rank of `machine` that serves requests of world rank `asker`: rail-aligned, local rank l asks l mod
  /// R.
  int rail(int asker, int machine) const {
    const auto& peers = machines[static_cast<std::size_t>(machine)];
    return peers[static_cast<std::size_t>(ranks[static_cast<std::size_t>(asker)].local_rank) % peers.size()];
  }
};

/// Finds hosts, machines and devices. Collective. Throws InputError on all ranks: a GPU asked for where there
/// is none, ranks of a host not divisible by ranks_per_machine.
Topology discover(const Communicator& world, const TopologyOptions& options);

/// The ranks that share memory with this one; what the store needs of communication. An owner of its
/// communicator.
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

  /// Communicator::together of its ranks.
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
