// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace strata::doctor {

/// A network interface of a host, as the kernel reports it.
struct Interface {
  std::string name = {};
  double bits_per_second = 0;  ///< 0: not known
  std::int64_t sent_bytes = 0;
  bool rdma = false;  ///< a port of InfiniBand or the like, "mlx5_0:1"
};

/// What one rank finds out about its process and its host, without asking any other.
struct RankFacts {
  std::string host = {};                             ///< one name per host
  std::map<std::string, std::string> versions = {};  ///< "MPI" -> "Open MPI v4.1.4"
  std::vector<std::string> mpi_components = {};
  bool cuda_aware = false;

  std::vector<int> processors = {};  ///< that it may run on
  int host_processors = 0;           ///< of the host
  /// How busy each of `processors` was for a moment (1: always), by any program; empty if the kernel does
  /// not report it. And the cores that this process used meanwhile.
  std::vector<double> busy = {};
  double own_cores = 0;
  int cores = 0;  ///< its share
  std::int64_t memory_bytes = 0, host_memory_bytes = 0;
  std::map<std::string, std::string> namespaces = {};  ///< "pid" -> "pid:[4026531836]"

  static constexpr std::int64_t kUnlimited = -1;
  std::int64_t locked_bytes = 0, open_files = 0;  ///< limits, or kUnlimited
  std::int64_t shm_free_bytes = 0, shm_bytes = 0;
  std::int64_t huge_free_bytes = 0;  ///< reserved and not in use
  int overcommit = 0;
  std::string huge_pages = {};  ///< "always", "madvise", "never"; empty: not known

  std::vector<Interface> interfaces = {};  ///< that are up, without the loopback

  int visible_gpus = 0;  ///< that the process can use
  int driver_gpus = 0;   ///< that the driver knows
  std::string gpu = {}, gpu_uuid = {};
  int gpu_node = -1;                      ///< NUMA node of its GPU; -1: none or not known
  std::vector<int> node_processors = {};  ///< of that node
};

/// Facts of this process; `host`, `cores`, `memory_bytes` and those of the rank's GPU stay empty. The
/// kernel's files are read below `root`.
RankFacts gather_facts(const std::filesystem::path& root = "/");

/// The interfaces with the bytes that each has sent so far.
std::vector<Interface> find_interfaces(const std::filesystem::path& root = "/");

/// The NUMA node of a device of the PCI bus ("0000:3B:00.0"), or -1; and the processors of a node.
int node_of_device(const std::string& pci_address, const std::filesystem::path& root = "/");
std::vector<int> processors_of_node(int node, const std::filesystem::path& root = "/");

/// Seconds that processors have been busy since the host started; empty if one of them is not known.
std::vector<double> busy_seconds(const std::vector<int>& processors, const std::filesystem::path& root = "/");

/// "0-3,8" -> 0, 1, 2, 3, 8
std::vector<int> parse_processors(const std::string& list);
/// The chosen word of "always [madvise] never".
std::string chosen_word(const std::string& line);

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Interface, name, bits_per_second, sent_bytes, rdma)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankFacts, host, versions, mpi_components, cuda_aware, processors,
                                   host_processors, busy, own_cores, cores, memory_bytes, host_memory_bytes,
                                   namespaces, locked_bytes, open_files, shm_free_bytes, shm_bytes,
                                   huge_free_bytes, overcommit, huge_pages, interfaces, visible_gpus,
                                   driver_gpus, gpu, gpu_uuid, gpu_node, node_processors)

}  // namespace strata::doctor
