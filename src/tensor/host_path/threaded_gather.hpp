// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <mutex>

#include "host_path/host_gather.hpp"
#include "host_path/host_selection.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::tensor {

/// Gathers rows of all strata, and host rows by HostGather. An owner.
class ThreadedGather {
 public:
  /// `table` is the tensor's; it has `host_rows` rows in the host stratum.
  ThreadedGather(Device device, const RowTable& table, Count host_rows, const HostGather::Options& options);

  /// Gathers as HostGather::gather does, from the table of the constructor, except that its `bad` may differ;
  /// `shape` is that for the rows that lie on GPUs. Thread safe.
  void gather(const RowTable& table, const RowGather& gather, const LaunchShape& shape,
              const cuda::Stream& stream);

 private:
  void gather_mixed(const RowTable& table, const RowGather& gather, const LaunchShape& shape,
                    const cuda::Stream& stream);

  Device device_;
  bool host_alone_;
  HostGather host_;
  std::mutex mutex_;
  HostSelection selection_;
  cuda::Stream side_;  // for rows on GPUs, at the same time as host rows
  cuda::Event forked_, joined_, done_;
};

}  // namespace strata::tensor
