// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "collectives/nccl_communicator.hpp"
#include "strata/comm/device_exchange.hpp"
#include "strata/cuda/copy.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/util/error.hpp"

namespace strata::comm {
namespace {

class NcclExchange final : public DeviceExchange {
 public:
  NcclExchange(const Communicator& world, Device device)
      : device_(device), rank_(world.rank()), size_(world.size()), nccl_(world, device) {}

  void all_to_all(const void* send, std::span<const Count> send_bytes, void* recv,
                  std::span<const Count> recv_bytes, const cuda::Stream& stream) override {
    check(send_bytes, recv_bytes);
    const cuda::DeviceGuard guard(device_);
    const auto* outgoing = static_cast<const std::byte*>(send);
    auto* incoming = static_cast<std::byte*>(recv);
    nccl_.finish(ncclGroupStart(), "ncclGroupStart");
    for (std::size_t peer = 0; peer < send_bytes.size(); ++peer) {
      const auto sent = static_cast<std::size_t>(send_bytes[peer]),
                 received = static_cast<std::size_t>(recv_bytes[peer]);
      const int rank = static_cast<int>(peer);
      if (rank == rank_) {
        cuda::copy_async(incoming, outgoing, sent, stream);
      } else {
        if (sent > 0)
          check_queued(ncclSend(outgoing, sent, ncclInt8, rank, nccl_.get(), stream.get()), "ncclSend");
        if (received > 0)
          check_queued(ncclRecv(incoming, received, ncclInt8, rank, nccl_.get(), stream.get()), "ncclRecv");
      }
      outgoing += sent;
      incoming += received;
    }
    nccl_.finish(ncclGroupEnd(), "ncclGroupEnd");
  }
  void close() override {
    const cuda::DeviceGuard guard(device_);
    nccl_.close();
  }

 private:
  /// Within a group nothing has begun yet, so there is nothing to wait for if NCCL says "in progress".
  void check_queued(ncclResult_t code, const char* call) const {
    if (code != ncclInProgress) nccl_.finish(code, call);
  }
  void check(std::span<const Count> send_bytes, std::span<const Count> recv_bytes) const {
    const auto size = static_cast<std::size_t>(size_), own = static_cast<std::size_t>(rank_);
    if (send_bytes.size() != size || recv_bytes.size() != size || send_bytes[own] != recv_bytes[own])
      throw CommError(fmt::format("an exchange of {} sends and {} receives among {} ranks", send_bytes.size(),
                                  recv_bytes.size(), size_));
  }

  Device device_;
  int rank_, size_;
  NcclCommunicator nccl_;
};

}  // namespace

std::unique_ptr<DeviceExchange> make_device_exchange(const Communicator& world, Device device) {
  return std::make_unique<NcclExchange>(world, device);
}

}  // namespace strata::comm
