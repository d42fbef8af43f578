// SPDX-License-Identifier: Apache-2.0
#include "strata/comm/device_exchange.hpp"

#if !STRATA_WITH_CUDA
#include "strata/util/error.hpp"
#endif

namespace strata::comm {

bool can_exchange_on_devices(const Topology& topology, Device device) {
#if STRATA_WITH_CUDA
  return topology.gpu_per_rank && device.is_cuda() && topology.ranks.size() > 1;
#else
  static_cast<void>(topology);
  static_cast<void>(device);
  return false;
#endif
}

#if !STRATA_WITH_CUDA
std::unique_ptr<DeviceExchange> make_device_exchange(const Communicator&, Device) {
  throw CommError("GPUs exchange nothing in a build without CUDA");
}
#endif

}  // namespace strata::comm
