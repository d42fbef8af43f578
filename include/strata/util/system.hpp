// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace strata {

/// Sets what every program of Strata needs of its process; call it early in main, not in a library within
/// somebody else's program.
///
/// - A file that grows beyond `ulimit -f` is an error with a name (EFBIG), not the end of the process
///   (SIGXFSZ).
/// - As many files may be open as the hard limit allows: MPI, NCCL and part files take more than the usual
///   soft limit of 1024.
/// - Exit codes of child processes arrive, even if the parent ignored SIGCHLD.
void prepare_process();

/// The folder of Strata's own library, beside which those lie that it loads when they are needed.
std::filesystem::path library_folder();

std::int64_t resident_bytes();       ///< resident memory of this process now
std::int64_t peak_resident_bytes();  ///< its maximum so far
/// What new allocations may use: the lesser of MemAvailable and what the control groups leave.
std::int64_t available_host_bytes();

/// Returns memory that malloc kept for later to the operating system.
void return_freed_memory();

/// What the kernel lets this process take of its host: the processors that it may run on, and what its
/// control groups leave it. All groups from the process's own up to the root count, of cgroups version 1 and
/// 2.
///
/// The constructor finds the groups; each call reads their limits and use anew. All files are read below
/// `root`, so that tests can pass a folder of fake ones.
class HostLimits {
 public:
  explicit HostLimits(const std::filesystem::path& root = "/");

  /// Numbers of the processors in the affinity mask of the process, ascending. The mask lies within the
  /// process's cpusets.
  std::vector<int> processors() const;

  /// Names of the control groups of memory and of CPU time, from the innermost to the root. All processes of
  /// the host agree on the names, whatever container they see a group from.
  const std::vector<std::string>& groups() const { return names_; }

  struct CpuQuota {
    std::string group;
    double cores = 0;  ///< CPU seconds per second, for all processes of the group together
  };
  std::vector<CpuQuota> cpu_quotas() const;  ///< of the groups that have a quota

  struct FreeMemory {
    std::string group;  ///< empty: the host
    std::int64_t bytes = 0;
  };
  /// What new allocations may take. For the host it is MemAvailable. For each group with a limit it is the
  /// limit minus the use; the page cache of files does not count as used, because the kernel reclaims it
  /// first. Shared memory (tmpfs, memfd) does, because it cannot be reclaimed.
  std::vector<FreeMemory> free_memory() const;

  /// These are for a process that shares its limits with no other. free_bytes() is the least of
  /// free_memory(), or the largest number if nothing limits it. cores() is the number of processors, or the
  /// CPU time of the groups if that is less; at least 1.
  std::int64_t free_bytes() const;
  int cores() const;

 private:
  std::filesystem::path root_;
  std::vector<std::filesystem::path> folders_;  // of the groups
  std::vector<std::string> names_;
};

/// "0.2.0", or "0.2.0, commit 1a2b3c4" where the build knows its commit; a "+" follows a changed one.
std::string build_version();

}  // namespace strata
