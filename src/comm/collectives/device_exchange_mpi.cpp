// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "collectives/transfers.hpp"
#include "state.hpp"
#include "strata/comm/device_exchange.hpp"
#include "strata/cuda/buffer.hpp"

namespace strata::comm {
namespace {

/// Messages pass through pinned host memory. The host waits for the stream, and for the other ranks.
class MpiExchange final : public DeviceExchange {
 public:
  MpiExchange(const Communicator& world, Device device)
      : communicator_(world.duplicate()), device_(device), copied_(device) {}

  void exchange(std::span<const Outgoing> sends, std::span<const Incoming> receives,
                const cuda::Stream& stream) override {
    copied_.synchronize();
    std::byte* const outgoing = room_for(outgoing_, sends);
    std::byte* const incoming = room_for(incoming_, receives);
    std::byte* next = outgoing;
    for (const Outgoing& message : sends) {
      cuda::copy_async(next, message.data, at(message.bytes), stream);
      next += message.bytes;
    }
    stream.synchronize();
    transfer(sends, outgoing, receives, incoming);
    next = incoming;
    for (const Incoming& message : receives) {
      cuda::copy_async(message.data, next, at(message.bytes), stream);
      next += message.bytes;
    }
    copied_.record(stream);
  }

  void max(Count* values, Count count, const cuda::Stream& stream) override {
    copied_.synchronize();
    const auto bytes = at(count) * sizeof(Count);
    auto* here = reinterpret_cast<Count*>(incoming_.reserve(cuda::Memory::pinned, static_cast<Count>(bytes),
                                                            "messages between ranks", device_));
    cuda::copy_async(here, values, bytes, stream);
    stream.synchronize();
    communicator_.all_reduce(std::span(here, at(count)), Communicator::Op::max);
    cuda::copy_async(values, here, bytes, stream);
    copied_.record(stream);
  }

  bool can_be_recorded() const override { return false; }

  void close() override { communicator_.close(); }

 private:
  template <typename Message>
  std::byte* room_for(cuda::Array<std::byte>& array, std::span<const Message> messages) const {
    const Count bytes =
        std::accumulate(messages.begin(), messages.end(), Count{0},
                        [](Count sum, const Message& message) { return sum + message.bytes; });
    return array.reserve(cuda::Memory::pinned, bytes, "messages between ranks", device_);
  }

  void transfer(std::span<const Outgoing> sends, const std::byte* outgoing,
                std::span<const Incoming> receives, std::byte* incoming) const {
    Transfers transfers(Internals::of(communicator_));
    for (const Incoming& message : receives) {
      transfers.receive(incoming, message.bytes, message.rank);
      incoming += message.bytes;
    }
    for (const Outgoing& message : sends) {
      transfers.send(outgoing, message.bytes, message.rank);
      outgoing += message.bytes;
    }
    transfers.wait();
  }

  Communicator communicator_;
  Device device_;
  cuda::Event copied_;                          // the messages have left and reached host memory
  cuda::Array<std::byte> outgoing_, incoming_;  // pinned
};

}  // namespace

std::unique_ptr<DeviceExchange> make_mpi_exchange(const Communicator& world, Device device) {
  return std::make_unique<MpiExchange>(world, device);
}

}  // namespace strata::comm
