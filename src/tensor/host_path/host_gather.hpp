// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include "gather.hpp"
#include "host_path/host_rows_cpu.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::tensor {

/// Gathers rows of host memory for one GPU, faster than only zero copy can. An owner of threads and pinned
/// memory.
///
/// Address translation limits random reads of host memory by a GPU; CPU threads have no such limit. So the
/// entries of a list are divided:
///
///     entries   begin ... middle        | middle ... end
///     read by   a kernel, by zero copy  | CPU threads, into a pinned ring that a second kernel drains
///
/// Only kernels wait, for flags in pinned memory, and the threads never call CUDA. So no queue or lock of the
/// driver can cause a deadlock, whatever else the process does.
class HostGather {
 public:
  struct Options {
    int threads = 0;  ///< CPU threads; 0: default_host_threads() of the cores of this process
    std::vector<int> processors = {};  ///< as HostWorkers::Options::processors
    double share = 0;            ///< share of the rows for the threads; 0: measured in the first jobs; 1: all
    LaunchShape zero_copy = {};  ///< of the zero-copy kernel; 0 multiprocessors: as many as keep PCIe busy
    RowStores stores = RowStores::cached;  ///< into the ring, which caches hold (1 MiB per thread)
    /// Random ids are sorted before zero copy if the table is larger than this; the translations of smaller
    /// tables are all cached.
    std::size_t sort_above_bytes = std::size_t{1} << 30;
  };
  /// Rows that are registered with CUDA and outlive the HostGather. The ids of `table` are rows of the host
  /// stratum.
  struct Source {
    const std::byte* rows = nullptr;
    RowTable table;  ///< its `bad` is ignored
  };
  struct Shares {
    double sorted, random;
  };

  /// Starts threads and allocates 1 MiB of pinned memory per thread. Throws InputError for options out of
  /// range.
  HostGather(Device device, const Source& source, const Options& options);
  /// Waits for all jobs, then joins the threads.
  ~HostGather();
  HostGather(const HostGather&) = delete;
  HostGather& operator=(const HostGather&) = delete;

  /// id - list.first is a host row; zeros for -1 and ids out of range, which `bad` gets; null: not wanted.
  /// Asynchronous on `stream`; it waits for the GPU only when a larger list needs more memory. Thread safe;
  /// jobs run one after the other. Short lists use only zero copy, unless a share of 1 was given. Throws
  /// OutOfMemory and CudaError; after a failed launch every call throws.
  void gather(const RowGather& gather, const cuda::Stream& stream, BadId* bad = nullptr);

  /// Shares of the rows that the threads get: as given, or as measured so far.
  Shares shares() const;
  int num_threads() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace strata::tensor
