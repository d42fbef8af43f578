// SPDX-License-Identifier: Apache-2.0
#include "strata/comm/device_exchange.hpp"

#include <vector>

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

void DeviceExchange::all_to_all(const void* send, std::span<const Count> send_bytes, void* recv,
                                std::span<const Count> recv_bytes, const cuda::Stream& stream) {
  std::vector<Outgoing> sends;
  std::vector<Incoming> receives;
  const auto* outgoing = static_cast<const std::byte*>(send);
  auto* incoming = static_cast<std::byte*>(recv);
  for (std::size_t rank = 0; rank < send_bytes.size(); ++rank) {
    sends.push_back({static_cast<int>(rank), outgoing, send_bytes[rank]});
    outgoing += send_bytes[rank];
  }
  for (std::size_t rank = 0; rank < recv_bytes.size(); ++rank) {
    receives.push_back({static_cast<int>(rank), incoming, recv_bytes[rank]});
    incoming += recv_bytes[rank];
  }
  exchange(sends, receives, stream);
}

#if !STRATA_WITH_CUDA
std::unique_ptr<DeviceExchange> make_device_exchange(const Communicator&, Device, int) {
  throw CommError("GPUs exchange nothing in a build without CUDA");
}
#endif

}  // namespace strata::comm
