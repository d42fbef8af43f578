// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <vector>

#include "host_path/host_job.hpp"
#include "host_path/host_rows_cpu.hpp"

namespace strata::tensor {

/// Threads that gather rows for a GPU: the middle stage of a HostJob. They never call CUDA, so that no lock
/// of the driver and no queue of the GPU can hold them up. An owner of its threads.
class HostWorkers {
 public:
  struct Options {
    int threads = 1;
    /// Numbers of the processors that the threads may run on; empty: those of the process. The threads are
    /// not bound to one processor each, because a thread that waits for the GPU there would hold up the bound
    /// thread, and with it all others.
    std::vector<int> processors = {};
    RowStores stores = RowStores::streaming;
  };
  HostWorkers(const RowSource& rows, const Options& options);
  /// Joins the threads. Jobs that the GPU did not finish are abandoned, so the GPU must be done with all
  /// jobs, or lost.
  ~HostWorkers();
  HostWorkers(const HostWorkers&) = delete;
  HostWorkers& operator=(const HostWorkers&) = delete;

  int num_threads() const;
  /// Announces a job, which will ring its doorbell later. Jobs are done in the order of the calls. Does not
  /// block.
  void post(const HostJob& job);
  /// Cancels the last posted job, which the GPU will never run, because its launch failed.
  void cancel_last();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Number of threads for a rank with `cores` cores: three quarters; the stages need the others. Gathers
/// process their chunks in order, so a thread that shares its core with one that waits for the GPU holds up
/// all. Measured: with 15 threads on 16 cores a training run gathered 30 GB/s; without training they reach
/// 48.
int default_host_threads(int cores);

}  // namespace strata::tensor
