// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <span>

#include "strata/comm/machine.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::comm {

/// Moves bytes between the GPUs of all ranks over NCCL, with a communicator of its own.
class DeviceExchange {
 public:
  virtual ~DeviceExchange() = default;
  /// Sends send_bytes[r] bytes to every rank r and receives recv_bytes[r] bytes from it. Both buffers lie on
  /// this rank's GPU, in order of rank without gaps. A pair of ranks without bytes exchanges no message.
  /// Collective; asynchronous on `stream`. Launches must be in the same order on all ranks; see LaunchOrder.
  virtual void all_to_all(const void* send, std::span<const Count> send_bytes, void* recv,
                          std::span<const Count> recv_bytes, const cuda::Stream& stream) = 0;
  virtual void close() = 0;  ///< collective
};

/// Whether the GPUs of this run can exchange over NCCL: there are several ranks, and each has a GPU of its
/// own.
bool can_exchange_on_devices(const Topology& topology, Device device);

/// REQUIRES: can_exchange_on_devices(). Collective over `world`.
std::unique_ptr<DeviceExchange> make_device_exchange(const Communicator& world, Device device);

}  // namespace strata::comm
