// SPDX-License-Identifier: Apache-2.0
#include "strata/comm/link.hpp"

#include <algorithm>
#include <chrono>
#include <span>
#include <vector>

#include "strata/comm/id_segments.hpp"

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

/// By rank, the bytes of one message to each rank that this rank asks, or that asks it.
struct Messages {
  std::vector<Count> send, receive;
};

Messages rail_messages(const Communicator& ranks, const Topology& topology, Count bytes) {
  const auto size = static_cast<std::size_t>(ranks.size());
  Messages messages{.send = std::vector<Count>(size), .receive = std::vector<Count>(size)};
  const SegmentPeers peers = SegmentPeers::of(topology, {}, ranks.rank());
  for (const int server : peers.servers) messages.send[static_cast<std::size_t>(server)] = bytes;
  for (const int client : peers.clients) messages.receive[static_cast<std::size_t>(client)] = bytes;
  return messages;
}

}  // namespace

LinkFacts measure_link(const Communicator& ranks, const Topology& topology) {
  if (topology.num_machines() == 1) return {};
  constexpr int kRounds = 25, kTransfers = 5;
  constexpr Count kBytes = Count{2} << 20;  // of a rank, to all machines together
  LinkFacts facts;
  const std::vector<Count> counts(static_cast<std::size_t>(ranks.size()));
  facts.round_seconds = median_seconds(ranks, kRounds, [&] { (void)ranks.exchange_counts(counts); });
  const Count others = topology.num_machines() - 1;
  const Messages messages = rail_messages(ranks, topology, kBytes / others);
  const auto sum = [](const std::vector<Count>& sizes) {
    Count all = 0;
    for (const Count size : sizes) all += size;
    return static_cast<std::size_t>(all);
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

}  // namespace strata::comm
