// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <vector>

#include "host_path/host_job.hpp"
#include "host_path/host_rows_cpu.hpp"

namespace strata::tensor {

/// Threads that gather rows for a GPU: the middle hand of a HostJob. They call nothing of CUDA, so that no
/// lock of the driver and no queue of the GPU can hold them up. An owner of its threads.
class HostWorkers {
 public:
  struct Options {
    int threads = 1;
    /// Numbers of the processors that threads run on; none: wherever the process may. Not each on one of its
    /// own: a thread that waits for the GPU there would hold it up, and with it all.
    std::vector<int> processors = {};
    RowStores stores = RowStores::streaming;
  };
  HostWorkers(const RowSource& rows, const Options& options);
  /// Joins. Jobs that the GPU did not finish are abandoned: call it when the GPU is done with all of them or
  /// lost.
  ~HostWorkers();
  HostWorkers(const HostWorkers&) = delete;
  HostWorkers& operator=(const HostWorkers&) = delete;

  int num_threads() const;
  /// The job will ring its doorbell some time. Jobs are done in the order of the calls. Does not block.
  void post(const HostJob& job);
  /// The job posted last will never be run by the GPU, because its launch failed.
  void cancel_last();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Threads for a rank that has so many cores: three quarters, for others drive the stages. A thread that
/// shares its core with one that waits for the GPU holds up all: gathers go through their chunks in order
/// (measured: with 15 threads on 16 cores a training run gathered 30 GB/s of the 48 that they reach alone).
int default_host_threads(int cores);

}  // namespace strata::tensor
