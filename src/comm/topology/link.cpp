// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <span>
#include <vector>

#include "strata/comm/device_exchange.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::comm {
namespace {

/// The median over `times` calls, of the slowest rank.
template <typename Work>
double median_seconds(const Communicator& ranks, int times, Work&& work) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> seconds;
  work();  // connects
  ranks.barrier();
  for (int i = 0; i < times; ++i) {
    const auto start = Clock::now();
    work();
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  const auto middle = seconds.begin() + std::ssize(seconds) / 2;
  std::ranges::nth_element(seconds, middle);
  double median = *middle;
  ranks.all_reduce(std::span(&median, 1), Communicator::Op::max);
  return median;
}

/// The bytes, by rank, of one message to each rank that this rank asks, or that asks it.
struct Messages {
  std::vector<Count> send, receive;
};

Messages rail_messages(const Communicator& ranks, const Topology& topology, Count bytes) {
  const auto size = at(ranks.size());
  Messages messages{.send = std::vector<Count>(size), .receive = std::vector<Count>(size)};
  const SegmentPeers peers = SegmentPeers::of(topology, {}, ranks.rank());
  for (const int server : peers.servers) messages.send[at(server)] = bytes;
  for (const int client : peers.clients) messages.receive[at(client)] = bytes;
  return messages;
}

}  // namespace

LinkFacts measure_link(const Communicator& ranks, const Topology& topology) {
  if (topology.num_machines() == 1) return {};
  constexpr int kRounds = 25, kTransfers = 5;
  constexpr Count kBytes = Count{2} << 20;  // of a rank, to all machines together
  LinkFacts facts;
  const std::vector<Count> counts(at(ranks.size()));
  facts.round_seconds = median_seconds(ranks, kRounds, [&] { (void)ranks.exchange_counts(counts); });
  const Count others = topology.num_machines() - 1;
  const Messages messages = rail_messages(ranks, topology, kBytes / others);
  const auto sum = [](const std::vector<Count>& sizes) {
    Count all = 0;
    for (const Count size : sizes) all += size;
    return at(all);
  };
  const std::vector<char> send(sum(messages.send));
  std::vector<char> received(sum(messages.receive));
  const double seconds = median_seconds(ranks, kTransfers, [&] {
    ranks.all_to_all(send.data(), messages.send, received.data(), messages.receive);
  });
  const double moving = std::max(seconds - facts.round_seconds, seconds / 10);
  facts.bytes_per_second = static_cast<double>(kBytes / others * others) / moving;
  return facts;
}

/// Sends some bytes to each rank that this one asks, and gets as many from each that asks it.
class DeviceMessages {
 public:
  DeviceMessages(const SegmentPeers& peers, Count most_bytes, Device device)
      : peers_(peers),
        sent_(cuda::memory_on(device), std::ssize(peers.servers) * most_bytes, "bytes to measure with",
              device),
        received_(cuda::memory_on(device), std::ssize(peers.clients) * most_bytes, "bytes to measure with",
                  device) {}

  void exchange(DeviceExchange& wire, Count bytes, const cuda::Stream& stream) const {
    std::vector<DeviceExchange::Outgoing> sends;
    std::vector<DeviceExchange::Incoming> receives;
    for (const int rank : peers_.servers)
      sends.push_back({rank, sent_.data() + std::ssize(sends) * bytes, bytes});
    for (const int rank : peers_.clients)
      receives.push_back({rank, received_.data() + std::ssize(receives) * bytes, bytes});
    wire.exchange(sends, receives, stream);
  }

 private:
  SegmentPeers peers_;
  cuda::Array<std::byte> sent_, received_;
};

LinkFacts measure_link(DeviceExchange& wire, const Communicator& ranks, const Topology& topology,
                       Device device) {
  if (topology.num_machines() == 1) return {};
  constexpr int kTimes = 5, kInARow = 20, kTransfersInARow = 4;
  constexpr Count kBytes = Count{8} << 20, kNumber = 16;  // the first of a rank, to all machines together
  const cuda::DeviceGuard guard(device);
  const cuda::Stream stream = device.is_cuda() ? cuda::Stream(device) : cuda::Stream();
  const Count others = topology.num_machines() - 1, bytes = kBytes / others / kNumber * kNumber;
  const DeviceMessages messages(SegmentPeers::of(topology, {}, ranks.rank()), bytes, device);
  const auto seconds_of = [&](Count message_bytes, int in_a_row) {
    const double seconds = median_seconds(ranks, kTimes, [&] {
      for (int i = 0; i < in_a_row; ++i) messages.exchange(wire, message_bytes, stream);
      stream.synchronize();
    });
    return seconds / in_a_row;
  };
  LinkFacts facts{.round_seconds = seconds_of(kNumber, kInARow), .bytes_per_second = 0};
  const double seconds = seconds_of(bytes, kTransfersInARow);
  const double moving = std::max(seconds - facts.round_seconds, seconds / 10);
  facts.bytes_per_second = static_cast<double>(bytes * others) / moving;
  return facts;
}

}  // namespace strata::comm
