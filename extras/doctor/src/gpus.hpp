// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "judge.hpp"
#include "strata/comm/communicator.hpp"
#include "strata/comm/machine.hpp"
#include "strata/cuda/device.hpp"

namespace strata::cuda {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PeerLink, from, to, access, kind, path, bytes_per_second)
}  // namespace strata::cuda

namespace strata::doctor {

/// The state of a GPU by nvidia-smi.
struct GpuState {
  std::string uuid = {};  ///< as cuda::device_uuid()
  std::int64_t uncorrected_errors = 0;
  std::uint64_t held_back = 0;  ///< bits of why its clocks are lowered
  int link_width = 0, most_link_width = 0;
};

/// What a rank that computes on a GPU has found; links and states are its host's, on the host's first rank.
struct GpuFacts {
  double copy_alone = 0, copy_together = 0;  ///< bytes per second from host memory; 0: not measured
  std::vector<cuda::PeerLink> links = {};
  std::vector<GpuState> states = {};
  std::vector<std::string> driver_messages = {};  ///< "Xid ..." of the kernel's log
  bool log_readable = false;
};

/// Copies from pinned host memory to the rank's GPU, one rank of a host after the other, then all at once.
/// Collective over `host`, the ranks of one host, of which all or none compute on GPUs.
void measure_copies(const comm::Communicator& host, Device device, GpuFacts& facts);

/// What nvidia-smi and the kernel's log report of a host. May take seconds.
struct DriverFacts {
  std::vector<GpuState> states = {};
  std::vector<std::string> driver_messages = {};
  bool log_readable = false;
};
DriverFacts look_at_driver();

/// The rows that nvidia-smi prints for --query-gpu=uuid,ecc...,pcie... and for uuid,clocks_....
std::vector<GpuState> parse_states(const std::string& errors_and_links, const std::string& reasons);
/// The Xid messages among the lines of the kernel's log.
std::vector<std::string> parse_driver_messages(const std::string& log);

Findings judge_gpus(const std::vector<GpuFacts>& gpus, const std::vector<RankFacts>& ranks);
std::vector<std::string> describe_gpus(const std::vector<GpuFacts>& gpus,
                                       const std::vector<RankFacts>& ranks);

/// The rates of NCCL, and its transports.
struct NcclFacts {
  double all_reduce = 0, all_to_all = 0;     ///< bytes per second and rank: as the wire sees them
  std::vector<std::string> transports = {};  ///< "P2P/CUMEM", "SHM", "NET/IB", "NET/Socket"
  std::vector<std::string> networks = {};    ///< "Socket eth0:10.1.1.1", "IB mlx5_0:1"
};
/// Sums and exchanges some memory of the GPUs. Collective over all ranks; each has a GPU of its own.
NcclFacts measure_nccl(const comm::Communicator& world, const comm::Topology& topology, Device device,
                       std::int64_t bytes);
/// Adds the transports and networks in NCCL's log (NCCL_DEBUG=INFO).
void parse_nccl_log(const std::string& log, NcclFacts& facts);
/// Makes NCCL write its log into a file of this process, unless the environment sets its log. Call it
/// before NCCL is used.
void ask_for_nccl_log();
/// Reads what was written by now, if it was asked for, and removes the file.
void read_nccl_log(NcclFacts& facts);

Findings judge_nccl(const std::vector<NcclFacts>& nccl, const std::vector<RankFacts>& ranks);
std::vector<std::string> describe_nccl(const std::vector<NcclFacts>& nccl);

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GpuState, uuid, uncorrected_errors, held_back, link_width, most_link_width)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GpuFacts, copy_alone, copy_together, links, states, driver_messages,
                                   log_readable)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NcclFacts, all_reduce, all_to_all, transports, networks)

}  // namespace strata::doctor
