// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>

#include "collectives/nccl_communicator.hpp"
#include "strata/comm/device_exchange.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/util/error.hpp"

namespace strata::comm {
namespace {

class NcclExchange final : public DeviceExchange {
 public:
  NcclExchange(const Communicator& world, Device device, int most_blocks)
      : device_(device), rank_(world.rank()), size_(world.size()), nccl_(world, device, most_blocks) {}

  void exchange(std::span<const Outgoing> sends, std::span<const Incoming> receives,
                const cuda::Stream& stream) override {
    const cuda::DeviceGuard guard(device_);
    nccl_.finish(ncclGroupStart(), "ncclGroupStart");
    for (const Outgoing& message : sends) {
      if (!crosses(message.rank, message.bytes)) continue;
      check_queued(
          ncclSend(message.data, bytes_of(message), ncclInt8, message.rank, nccl_.get(), stream.get()),
          "ncclSend");
    }
    for (const Incoming& message : receives) {
      if (!crosses(message.rank, message.bytes)) continue;
      check_queued(
          ncclRecv(message.data, bytes_of(message), ncclInt8, message.rank, nccl_.get(), stream.get()),
          "ncclRecv");
    }
    nccl_.finish(ncclGroupEnd(), "ncclGroupEnd");
    keep_own(sends, receives, stream);
  }

  void max(Count* values, Count count, const cuda::Stream& stream) override {
    const cuda::DeviceGuard guard(device_);
    nccl_.finish(ncclAllReduce(values, values, at(count), ncclInt64, ncclMax, nccl_.get(), stream.get()),
                 "ncclAllReduce");
  }

  bool can_be_recorded() const override { return true; }

  void close() override {
    const cuda::DeviceGuard guard(device_);
    nccl_.close();
  }

 private:
  /// Checks a call within a group, where nothing has begun yet: "in progress" is then not worth waiting for.
  void check_queued(ncclResult_t code, const char* call) const {
    if (code != ncclInProgress) nccl_.finish(code, call);
  }
  template <typename Byte>
  static std::size_t bytes_of(const Message<Byte>& message) {
    return at(message.bytes);
  }
  bool crosses(int rank, Count bytes) const {
    if (rank < 0 || rank >= size_ || bytes < 0)
      throw CommError(fmt::format("a message of {} bytes with rank {} among {} ranks", bytes, rank, size_));
    return rank != rank_ && bytes > 0;
  }
  /// Copies the messages of a rank to itself.
  void keep_own(std::span<const Outgoing> sends, std::span<const Incoming> receives,
                const cuda::Stream& stream) const {
    auto from = sends.begin();
    for (const Incoming& message : receives) {
      if (message.rank != rank_) continue;
      from = std::find_if(from, sends.end(), [&](const Outgoing& own) { return own.rank == rank_; });
      if (from == sends.end() || from->bytes != message.bytes)
        throw CommError(
            fmt::format("rank {} does not send itself the {} bytes that it receives", rank_, message.bytes));
      cuda::copy_async(message.data, from->data, bytes_of(message), stream);
      ++from;
    }
  }

  Device device_;
  int rank_, size_;
  NcclCommunicator nccl_;
};

}  // namespace

std::unique_ptr<DeviceExchange> make_device_exchange(const Communicator& world, Device device,
                                                     int most_blocks) {
  return std::make_unique<NcclExchange>(world, device, most_blocks);
}

}  // namespace strata::comm
