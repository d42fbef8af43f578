// SPDX-License-Identifier: Apache-2.0
#include "network.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <span>

namespace strata::doctor {
namespace {

using comm::Communicator;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Messages between this rank and one other.
class Line {
 public:
  Line(const Communicator& ranks, int peer)
      : ranks_(ranks), peer_(peer), counts_(at(ranks.size())), none_(at(ranks.size())) {}

  void send(const void* data, Count bytes) {
    counts_[at(peer_)] = bytes;
    ranks_.all_to_all(data, counts_, nullptr, none_);
  }
  void receive(void* data, Count bytes) {
    counts_[at(peer_)] = bytes;
    ranks_.all_to_all(nullptr, none_, data, counts_);
  }
  template <typename T>
  void send(const T& value) {
    send(&value, sizeof(T));
  }
  template <typename T>
  T receive() {
    T value{};
    receive(&value, sizeof(T));
    return value;
  }

 private:
  const Communicator& ranks_;
  int peer_;
  std::vector<Count> counts_, none_;
};

/// The shortest round trip, which nothing else has held up.
double ping(Line& line, int times) {
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i <= times; ++i) {  // the first connects
    const auto start = Clock::now();
    line.send(std::int64_t{i});
    (void)line.receive<std::int64_t>();
    if (i > 0) least = std::min(least, seconds_since(start));
  }
  return least;
}

void answer_pings(Line& line, int times) {
  for (int i = 0; i <= times; ++i) line.send(line.receive<std::int64_t>());
}

/// The seconds of a message that the other rank confirms: the least of some, because a busy host may hold up
/// one of them; of the first if it is short.
double send_confirmed(Line& line, Count bytes, const Effort& effort, std::vector<char>& memory) {
  constexpr int kTries = 3;
  memory.resize(at(bytes));
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kTries && least > effort.transfer_seconds; ++i) {
    const auto start = Clock::now();
    line.send(bytes);
    line.send(memory.data(), bytes);
    (void)line.receive<Count>();
    least = std::min(least, seconds_since(start));
  }
  return least;
}

/// Sends messages that grow until one takes long enough; returns the rate of the
/// last. A length of 0 ends the stream.
double send_stream(Line& line, double round_seconds, const Effort& effort, std::vector<char>& memory) {
  constexpr Count kFirst = Count{64} << 10, kGrowth = 4;
  double rate = 0, seconds = 0;
  for (Count bytes = kFirst; bytes <= effort.most_bytes && seconds < effort.transfer_seconds;
       bytes *= kGrowth) {
    seconds = send_confirmed(line, bytes, effort, memory);
    rate = static_cast<double>(bytes) / std::max(seconds - round_seconds, seconds / 10);
  }
  line.send(Count{0});
  return rate;
}

void take_stream(Line& line, std::vector<char>& memory) {
  for (Count bytes = line.receive<Count>(); bytes > 0; bytes = line.receive<Count>()) {
    memory.resize(at(bytes));
    line.receive(memory.data(), bytes);
    line.send(bytes);
  }
}

/// Measures both ways between this rank and `peer`; returns the way from this rank.
LinkRate measure_pair(const Communicator& leaders, int peer, const Effort& effort) {
  Line line(leaders, peer);
  std::vector<char> memory;
  LinkRate link{.from = leaders.rank(), .to = peer};
  if (leaders.rank() < peer) {
    link.latency_seconds = ping(line, effort.pings) / 2;
    line.send(link.latency_seconds);
    link.bytes_per_second = send_stream(line, 2 * link.latency_seconds, effort, memory);
    take_stream(line, memory);
  } else {
    answer_pings(line, effort.pings);
    link.latency_seconds = line.receive<double>();
    take_stream(line, memory);
    link.bytes_per_second = send_stream(line, 2 * link.latency_seconds, effort, memory);
  }
  return link;
}

/// Bytes per second that each rank sends when all send at once, `bytes` to each of the next `peers` ranks.
double send_around(const Communicator& leaders, Count bytes, int peers) {
  const int size = leaders.size();
  std::vector<Count> send(at(size)), receive(at(size));
  for (int step = 1; step <= peers; ++step) {
    send[at((leaders.rank() + step) % size)] = bytes;
    receive[at((leaders.rank() + size - step) % size)] = bytes;
  }
  const std::vector<char> outgoing(at(bytes * peers));
  std::vector<char> incoming(outgoing.size());
  leaders.barrier();
  const auto start = Clock::now();
  leaders.all_to_all(outgoing.data(), send, incoming.data(), receive);
  double seconds = seconds_since(start);
  leaders.all_reduce(std::span(&seconds, 1), Communicator::Op::max);
  return static_cast<double>(bytes * peers) / seconds;
}

std::vector<LinkRate> gather_links(const Communicator& leaders, const std::vector<LinkRate>& own) {
  std::vector<LinkRate> links;
  for (const std::string& text : leaders.all_gather(nlohmann::json(own).dump()))
    for (const auto& link : nlohmann::json::parse(text)) links.push_back(link.get<LinkRate>());
  return links;
}

}  // namespace

std::vector<std::vector<std::pair<int, int>>> rounds_of_pairs(int hosts) {
  // The circle method: one stays, the others go around; with an odd number, one rests.
  const int places = hosts + hosts % 2;
  std::vector<std::vector<std::pair<int, int>>> rounds;
  for (int round = 0; round + 1 < places; ++round) {
    std::vector<std::pair<int, int>> pairs;
    for (int place = 0; place < places / 2; ++place) {
      const auto host_at = [&](int p) { return p == 0 ? 0 : (p - 1 + round) % (places - 1) + 1; };
      const int a = host_at(place), b = host_at(places - 1 - place);
      if (a < hosts && b < hosts) pairs.emplace_back(std::min(a, b), std::max(a, b));
    }
    rounds.push_back(std::move(pairs));
  }
  return rounds;
}

Effort Effort::of(bool quick, int hosts) {
  constexpr double kPerPair = 10;  // transfers of full length, as far as time goes
  const double seconds = quick ? 2 : 15, rounds = std::max(1, hosts - 1);
  const Effort most{.pings = quick ? 20 : 100,
                    .transfer_seconds = quick ? 0.04 : 0.2,
                    .most_bytes = std::int64_t{quick ? 16 : 64} << 20};
  return {.pings = most.pings,
          .transfer_seconds = std::min(most.transfer_seconds, seconds / rounds / kPerPair),
          .most_bytes = most.most_bytes};
}

NetworkFacts measure_network(const Communicator& leaders, const Effort& effort) {
  NetworkFacts facts;
  if (leaders.size() == 1) return facts;
  const std::vector<Interface> before = find_interfaces();
  std::vector<LinkRate> own;
  for (const auto& round : rounds_of_pairs(leaders.size())) {
    for (const auto& [a, b] : round)
      if (a == leaders.rank() || b == leaders.rank())
        own.push_back(measure_pair(leaders, a == leaders.rank() ? b : a, effort));
    leaders.barrier();
  }
  facts.links = gather_links(leaders, own);
  const double least = std::ranges::min(facts.links, {}, &LinkRate::bytes_per_second).bytes_per_second;
  constexpr Count kLeast = Count{64} << 10;
  const Count bytes =
      std::clamp<Count>(static_cast<Count>(least * effort.transfer_seconds), kLeast, effort.most_bytes);
  const int others = leaders.size() - 1;
  facts.ring_bytes_per_second = send_around(leaders, bytes, 1);
  facts.all_to_all_bytes_per_second = send_around(leaders, std::max(Count{1}, bytes / others), others);
  facts.carriers = leaders.all_gather(carrier_of(before, find_interfaces(), bytes));
  return facts;
}

std::vector<ClockOffset> compare_clocks(const Communicator& leaders, const Effort& effort) {
  const auto now = [] {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  };
  std::vector<ClockOffset> offsets(at(leaders.size()));
  if (leaders.rank() > 0) {
    Line line(leaders, 0);
    for (int i = 0; i < effort.pings; ++i) {
      (void)line.receive<double>();
      line.send(now());
    }
  }
  for (int peer = 1; leaders.rank() == 0 && peer < leaders.size(); ++peer) {
    Line line(leaders, peer);
    double shortest = std::numeric_limits<double>::infinity();
    for (int i = 0; i < effort.pings; ++i) {
      const double sent = now();
      line.send(sent);
      const double there = line.receive<double>(), back = now();
      if (back - sent >= shortest) continue;
      shortest = back - sent;
      offsets[at(peer)] = {.seconds = there - (sent + back) / 2, .error_seconds = shortest / 2};
    }
  }
  leaders.broadcast(offsets.data(), static_cast<Count>(offsets.size() * sizeof(ClockOffset)), 0);
  return offsets;
}

}  // namespace strata::doctor
