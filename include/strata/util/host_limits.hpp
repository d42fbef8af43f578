// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace strata {

/// What the kernel lets this process take of its host: the processors that it may run on, and what its
/// control groups leave it, each from the process's own group up to the root; cgroups of version 1 and 2.
///
/// The groups are found when the object is made; their limits and use are read anew by each call. All is read
/// below `root`, which tests set to a folder of faked files.
class HostLimits {
 public:
  explicit HostLimits(const std::filesystem::path& root = "/");

  /// Numbers of the processors in the affinity mask of the process, ascending; the mask lies within its
  /// cpusets.
  std::vector<int> processors() const;

  /// A control group has a name that all processes of the host agree on, whatever container they see it from.
  /// From the innermost to the root, those of memory and of CPU time.
  const std::vector<std::string>& groups() const { return names_; }

  struct CpuQuota {
    std::string group;
    double cores = 0;  ///< CPU seconds per second, for all processes of the group together
  };
  std::vector<CpuQuota> cpu_quotas() const;  ///< of the groups that have one

  struct FreeMemory {
    std::string group;  ///< empty: the host
    std::int64_t bytes = 0;
  };
  /// What new allocations may take: of the host, MemAvailable; of each group with a limit, the limit minus
  /// the use, with the page cache of files added back, since the kernel reclaims it first. Shared memory
  /// (tmpfs, memfd) counts as used, because it cannot be reclaimed.
  std::vector<FreeMemory> free_memory() const;

  /// For a process that shares them with no other: the least of its free memory, at most the largest number;
  /// its processors, or the CPU time of its groups if that is less, at least 1.
  std::int64_t free_bytes() const;
  int cores() const;

 private:
  std::filesystem::path root_;
  std::vector<std::filesystem::path> folders_;  // of the groups
  std::vector<std::string> names_;
};

}  // namespace strata
