// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <span>

#include "strata/comm/machine.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::comm {

/// Moves bytes between the devices of all ranks, with a communicator of its own.
///
/// Calls are collective over all ranks, which make them in the same order; over NCCL, beside all other
/// launches with NCCL (LaunchOrder). Results are complete when `stream` reaches this point. Over NCCL the
/// host waits for nothing. Threads take turns.
class DeviceExchange {
 public:
  virtual ~DeviceExchange() = default;

  /// What one rank sends to another, or receives from it. `data` lies on this rank's device.
  template <typename Byte>
  struct Message {
    int rank = 0;  ///< the other one
    Byte* data = nullptr;
    Count bytes = 0;
  };
  using Outgoing = Message<const void>;
  using Incoming = Message<void>;

  /// Sends and receives some messages at once. Messages from one rank to another arrive in the order in which
  /// both list them; those of 0 bytes are not sent. A rank without messages takes part, too.
  virtual void exchange(std::span<const Outgoing> sends, std::span<const Incoming> receives,
                        const cuda::Stream& stream) = 0;
  /// values[i] = the largest values[i] of all ranks.
  virtual void max(Count* values, Count count, const cuda::Stream& stream) = 0;

  /// Sends send_bytes[r] bytes to every rank r and receives recv_bytes[r] bytes from it. Both buffers are in
  /// order of rank without gaps.
  void all_to_all(const void* send, std::span<const Count> send_bytes, void* recv,
                  std::span<const Count> recv_bytes, const cuda::Stream& stream);

  /// Whether a cuda::Graph can record calls, after one like them went before. Replays count as calls. Owners
  /// of such graphs end before close().
  virtual bool can_be_recorded() const = 0;

  virtual void close() = 0;  ///< collective
};

/// Whether the GPUs of this run can exchange over NCCL: there are several ranks, and each has a GPU of its
/// own.
bool can_exchange_on_devices(const Topology& topology, Device device);

/// Exchanges over NCCL. REQUIRES: can_exchange_on_devices(). Collective over `world`. Recorded calls are
/// fastest with NCCL_GRAPH_MIXING_SUPPORT=0 in the environment, which needs launches in the order of
/// LaunchOrder. A launch occupies at most `most_blocks` blocks of the GPU; 0: as many as NCCL likes.
std::unique_ptr<DeviceExchange> make_device_exchange(const Communicator& world, Device device,
                                                     int most_blocks = 0);
/// Exchanges over the ranks' own messages, through pinned host memory: for ranks that share a GPU, and for
/// the CPU. The host waits for the stream and for the other ranks. Collective over `world`.
std::unique_ptr<DeviceExchange> make_mpi_exchange(const Communicator& world, Device device);

}  // namespace strata::comm
