// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "strata/comm/machine.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::comm {

/// Sums a flat buffer over all ranks, in place: with NCCL if every rank has a GPU of its own, else with the
/// ranks' own messages through pinned memory. The order of the sum is fixed for a given number of ranks.
class AllReducer {
 public:
  virtual ~AllReducer() = default;
  /// data [count] f32 on the device of the reducer. Collective; asynchronous on `stream` with NCCL, else
  /// blocking.
  virtual void sum(float* data, Count count, const cuda::Stream& stream) = 0;
  virtual const char* name() const = 0;  ///< "nccl", or that of the backend: "mpi", "torch", "solo"
  virtual void close() = 0;              ///< collective
};

/// Collective over `world`, which is duplicated. `most_blocks` as in make_device_exchange().
std::unique_ptr<AllReducer> make_all_reducer(const Communicator& world, const Topology& topology,
                                             Device device, int most_blocks = 0);

}  // namespace strata::comm
