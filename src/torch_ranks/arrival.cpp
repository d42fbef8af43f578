// SPDX-License-Identifier: Apache-2.0
#include "arrival.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <mutex>
#include <optional>
#include <span>
#include <sstream>
#include <thread>

#include "strata/comm/backend.hpp"
#include "strata/comm/communicator.hpp"
#include "strata/util/error.hpp"

namespace strata::torch_ranks {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

std::string where(const Environment& environment) {
  return fmt::format("{}:{}", environment.address, environment.port);
}

/// Keeps the port until the process ends: ranks may start their next world before this one has left the
/// last.
void keep_open(const StorePtr& store) {
  static std::mutex mutex;
  static auto& stores = *new std::vector<StorePtr>;  // never freed: its thread outlives static objects
  const std::lock_guard lock(mutex);
  stores.push_back(store);
}

StorePtr connect(const Environment& environment, milliseconds patience) {
  c10d::TCPStoreOptions options;
  options.port = environment.port;
  options.isServer = environment.rank_opens_store();
  options.waitWorkers = false;
  options.timeout = patience;
  options.multiTenant = true;
  StorePtr store = c10::make_intrusive<c10d::TCPStore>(environment.address, options);
  if (options.isServer) keep_open(store);
  return store;
}

[[noreturn]] void fail_to_connect(const Environment& environment, const std::string& reason) {
  const bool opens = environment.rank_opens_store();
  if (opens && reason.find("EADDRINUSE") != std::string::npos) {
    throw InputError(
        fmt::format("rank 0 cannot open MASTER_PORT {}: another program uses it", environment.port),
        "Choose a free MASTER_PORT (torchrun --master-port), the same for all ranks.");
  }
  if (environment.store_is_open) {
    throw CommError(fmt::format("rank {} found nobody at the meeting place {}: {}", environment.rank,
                                where(environment), reason),
                    "Has the process ended that opened it?");
  }
  throw CommError(
      fmt::format("rank {} found no store at {}: {}", environment.rank, where(environment), reason),
      opens ? "MASTER_ADDR must be a name or address of the host of rank 0."
            : fmt::format("Is {} running, on the host that MASTER_ADDR names, with the same MASTER_PORT?",
                          environment.launcher_has_store ? "torchrun's first agent" : "rank 0"));
}

// One line per field, because host names have no line breaks.
std::string serialize(const Arrival& arrival) {
  return fmt::format("{}\n{}\n{}\n{}\n", arrival.world_size, arrival.host, arrival.memory, arrival.network);
}

Arrival parse(const std::string& text) {
  std::istringstream lines(text);
  Arrival arrival;
  lines >> arrival.world_size >> std::ws;
  std::getline(lines, arrival.host);
  std::getline(lines, arrival.memory);
  std::getline(lines, arrival.network);
  return arrival;
}

std::string key_of(int rank) { return fmt::format("arrival/{}", rank); }

/// The ranks that come, one after the other.
class Gathering {
 public:
  Gathering(c10d::Store& store, const Environment& environment)
      : store_(store),
        environment_(environment),
        arrivals_(static_cast<std::size_t>(environment.world_size)) {}

  void announce() {
    const int rank = environment_.rank;
    if (store_.add(fmt::format("claims/{}", rank), 1) > 1) {
      throw InputError(
          fmt::format("another process of the run at {} has RANK {}, too", where(environment_), rank),
          "Give every process a RANK of its own, from 0 to WORLD_SIZE - 1. Only one process per rank may "
          "open a world.");
    }
    store_.set(key_of(rank), bytes_of(serialize(Arrival::of_process(environment_.world_size))));
    store_.add(kCount, 1);
  }

  /// Returns whether all have come before `deadline`. Polls one counter with growing pauses, to spare the
  /// server, which many ranks may ask.
  bool wait(Clock::time_point deadline) {
    constexpr milliseconds kMostPause{200};
    std::int64_t seen = 0;
    for (milliseconds pause{5};; pause = std::min(2 * pause, kMostPause)) {
      const std::int64_t come = store_.add(kCount, 0);
      const bool may_be_all = come >= environment_.world_size;
      if (come != seen && (may_be_all || pause == kMostPause)) {
        look_at(missing());
        seen = come;
      }
      if (may_be_all && missing().empty()) return true;
      if (Clock::now() + pause > deadline) return false;
      std::this_thread::sleep_for(pause);
    }
  }

  std::vector<int> missing() const {
    std::vector<int> ranks;
    for (int rank = 0; rank < environment_.world_size; ++rank)
      if (!at(rank)) ranks.push_back(rank);
    return ranks;
  }

  std::vector<Arrival> all() const {
    std::vector<Arrival> found;
    for (const auto& arrival : arrivals_) found.push_back(*arrival);
    return found;
  }

 private:
  const std::optional<Arrival>& at(int rank) const { return arrivals_[static_cast<std::size_t>(rank)]; }

  static constexpr const char* kCount = "arrivals";  // how many ranks have come

  static std::vector<std::string> keys_of(std::span<const int> ranks) {
    std::vector<std::string> keys;
    for (const int rank : ranks) keys.push_back(key_of(rank));
    return keys;
  }

  /// Notes which of the ranks have come: all of them with two messages if none is missing, else half by half.
  void look_at(std::span<const int> ranks) {
    if (ranks.empty()) return;
    if (store_.check(keys_of(ranks))) {
      const std::vector<std::vector<std::uint8_t>> texts = store_.multiGet(keys_of(ranks));
      for (std::size_t i = 0; i < ranks.size(); ++i) note(ranks[i], parse(string_of(texts[i])));
    } else if (ranks.size() > 1) {
      look_at(ranks.first(ranks.size() / 2));
      look_at(ranks.subspan(ranks.size() / 2));
    }
  }

  /// Throws if the rank expects another number of ranks.
  void note(int rank, const Arrival& other) {
    if (other.world_size != environment_.world_size) {
      throw InputError(fmt::format("rank {} (host {}) has WORLD_SIZE {}, and rank {} has {}", rank,
                                   other.host, other.world_size, environment_.rank, environment_.world_size),
                       "Start all ranks with the same WORLD_SIZE.");
    }
    arrivals_[static_cast<std::size_t>(rank)] = other;
  }

  c10d::Store& store_;
  const Environment& environment_;
  std::vector<std::optional<Arrival>> arrivals_;
};

}  // namespace

Arrival Arrival::of_process(int world_size) {
  return {.world_size = world_size,
          .host = comm::host_name(),
          .memory = comm::memory_identity(),
          .network = comm::network_identity()};
}

std::uint16_t open_port() {
  static std::mutex mutex;
  static pid_t process = 0;  // a child has no thread that answers
  static std::uint16_t port = 0;
  const std::lock_guard lock(mutex);
  if (process == getpid()) return port;
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  const auto store = c10::make_intrusive<c10d::TCPStore>("localhost", options);
  keep_open(store);
  process = getpid();
  return port = static_cast<std::uint16_t>(store->getPort());
}

StorePtr open_store(const Environment& environment, milliseconds patience) {
  // A program that listens at the port and never answers would keep the call for ever, so the thread that
  // makes it is left behind.
  std::promise<StorePtr> connected;
  std::future<StorePtr> store = connected.get_future();
  std::thread([environment, patience, connected = std::move(connected)]() mutable {
    try {
      connected.set_value(connect(environment, patience));
    } catch (...) {
      connected.set_exception(std::current_exception());
    }
  }).detach();
  if (store.wait_for(patience + std::chrono::seconds(1)) != std::future_status::ready)
    fail_to_connect(environment, "what listens there is no TCPStore, or its process is stopped");
  try {
    return store.get();
  } catch (const std::exception& error) {
    fail_to_connect(environment, text_of(error));
  }
}

std::vector<Arrival> arrive(c10d::Store& store, const Environment& environment, milliseconds patience) try {
  Gathering ranks(store, environment);
  ranks.announce();
  if (ranks.wait(Clock::now() + patience)) return ranks.all();
  const std::vector<int> missing = ranks.missing();
  throw CommError(fmt::format("of {} ranks, {} {} did not come to {} within {} s", environment.world_size,
                              missing.size() == 1 ? "rank" : "ranks", fmt::join(missing, ", "),
                              where(environment), std::chrono::duration<double>(patience).count()),
                  "Were they started, with the same MASTER_ADDR and MASTER_PORT? Their own messages may say "
                  "why they ended.");
} catch (const c10::Error& error) {
  throw CommError(
      fmt::format("rank {} lost the store at {}: {}", environment.rank, where(environment), text_of(error)),
      "Rank 0 has ended, or torchrun; its own message says why.");
}

}  // namespace strata::torch_ranks
