// SPDX-License-Identifier: Apache-2.0
#include "strata/comm/reducer.hpp"

#include "collectives/reducer_mpi.hpp"
#include "strata/comm/device_exchange.hpp"
#if STRATA_WITH_CUDA
#include "collectives/reducer_nccl.hpp"
#endif

namespace strata::comm {

std::unique_ptr<AllReducer> make_all_reducer(const Communicator& world, const Topology& topology,
                                             Device device, int most_blocks) {
#if STRATA_WITH_CUDA
  // A single rank needs no NCCL, because it already has the sum.
  if (can_exchange_on_devices(topology, device)) return make_nccl_reducer(world, device, most_blocks);
#else
  static_cast<void>(topology);
  static_cast<void>(most_blocks);
#endif
  return std::make_unique<MpiReducer>(world, device);
}

}  // namespace strata::comm
