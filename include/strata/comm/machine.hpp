// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strata/comm/communicator.hpp"
#include "strata/util/enum_names.hpp"
#include "strata/util/types.hpp"

namespace strata::comm {

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
    const auto& peers = machines[static_cast<std::size_t>(machine)];
    return peers[static_cast<std::size_t>(ranks[static_cast<std::size_t>(asker)].local_rank) % peers.size()];
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
