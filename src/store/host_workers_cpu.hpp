#pragma once
#include <memory>

#include "host_job.hpp"
#include "host_rows_cpu.hpp"

namespace strata::store {

/// Threads that gather rows for a GPU: the middle hand of a HostJob. They call nothing of CUDA, so that no
/// lock of the driver and no queue of the GPU can hold them up. An owner of its threads.
class HostWorkers {
 public:
  struct Options {
    int threads = 1;
    int first_core =
        0;  ///< thread i runs on the core first_core + i of those that the process may use; -1: on any
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

/// Threads for a rank that has the process's cores for itself: all but those that drive the stages.
int default_host_threads();

}  // namespace strata::store
