// SPDX-License-Identifier: Apache-2.0
#include "run.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <thread>

#include "strata/util/error.hpp"
#include "strata/util/log.hpp"

namespace strata::torch_ranks {
namespace {

using std::chrono::milliseconds;

/// The patience with ranks that have arrived, however long others were waited for at the start.
constexpr std::chrono::seconds kPatience{30};

/// Worlds of a process follow each other, on all ranks alike, so their number identifies them in a store
/// that outlives them.
int next_world() {
  static std::atomic<int> number{0};
  return number++;
}

std::string prefix_of(const Environment& environment) {
  if (environment.store_is_open) return "strata/meeting/" + environment.attempt;
  return fmt::format("strata/{}/{}", environment.attempt, next_world());
}

/// gloo's flight recorder takes Python's lock for every collective, and until torch 2.11 at least it keeps
/// its groups in a map that threads of several groups change at once. The variable is read with the first
/// group of a process; a user's choice stands.
Environment without_flight_recorder(const Environment& environment) {
  if (std::getenv("TORCH_FR_BUFFER_SIZE") != nullptr) return environment;
  if (environment.rank == 0)
    spdlog::info(
        "TORCH_FR_BUFFER_SIZE=0 is set, which turns off torch's flight recorder, of NCCL, too: several threads "
        "use groups. Set the variable to a number of entries to keep it on.");
  ::setenv("TORCH_FR_BUFFER_SIZE", "0", 1);
  return environment;
}

}  // namespace

Run::Run(const Environment& environment, milliseconds patience)
    : environment_(without_flight_recorder(environment)),
      process_(getpid()),
      store_(
          c10::make_intrusive<c10d::PrefixStore>(prefix_of(environment), open_store(environment, patience))),
      ranks_(arrive(*store_, environment, patience)),
      self_{.world_rank = environment.rank, .host = comm::host_name()} {}

std::string Run::name_of(int world_rank) const {
  return fmt::format("rank {} (host {})", world_rank, ranks_[at(world_rank)].host);
}

Run::Connection Run::connect() const {
  const std::lock_guard lock(connections_mutex_);
  if (free_connections_.empty()) {
    StorePtr store = store_->clone();
    store->setTimeout(kPatience);
    return {*this, std::move(store)};
  }
  StorePtr store = std::move(free_connections_.back());
  free_connections_.pop_back();
  return {*this, std::move(store)};
}

Run::Connection::~Connection() {
  if (!store_) return;
  const std::lock_guard lock(run_->connections_mutex_);
  run_->free_connections_.push_back(std::move(store_));
}

std::shared_ptr<::gloo::transport::Device> Run::make_device() const {
  if (const char* names = std::getenv("GLOO_SOCKET_IFNAME")) {
    const std::string all = names;
    return Gloo::createDeviceForInterface(all.substr(0, all.find(',')));
  }
  const bool one_host = std::ranges::all_of(
      ranks_, [&](const Arrival& rank) { return rank.network == ranks_.front().network; });
  return one_host ? Gloo::createDeviceForHostname("127.0.0.1") : Gloo::createDefaultDevice();
}

GlooPtr Run::connect_group(const std::string& key, int rank, int size) const {
  try {
    auto options = Gloo::Options::create(kPatience);
    options->threads = 1;  // for one thread that uses the group
    options->devices.push_back(make_device());
    const Connection store = connect();  // which the group needs only now, though it keeps a reference
    return c10::make_intrusive<Gloo>(c10::make_intrusive<c10d::PrefixStore>(key, store.get()), rank, size,
                                     options);
  } catch (const std::exception& error) {
    throw CommError(
        fmt::format("{} ranks could not connect to each other: {} ({})", size, text_of(error), self_.who()),
        "Has one of them ended? Between hosts, GLOO_SOCKET_IFNAME names the network interface to use.");
  }
}

bool Run::is_own_process() const { return getpid() == process_; }

void Run::check_process() const {
  if (is_own_process()) return;
  throw CommError(
      fmt::format("a process that was forked from {} after its run began cannot speak for it", self_.who()),
      "Start such processes before the World, or with the start method 'spawn'; or let them not use it.");
}

void Run::abort(int exit_code) const {
  // The store's host may be stopped, and then the call would never return.
  std::promise<void> posted;
  const std::future<void> done = posted.get_future();
  std::thread([this, exit_code, &posted] {
    try {
      const std::string verdict = fmt::format("{}{} as {} asked", kAbort, exit_code, self_.who());
      connect()->compareSet(kVerdictKey, bytes_of(""), bytes_of(verdict));
    } catch (const std::exception&) {  // without a store, the others have noticed
    }
    posted.set_value();
  }).detach();
  done.wait_for(std::chrono::seconds(2));
  std::fflush(nullptr);
  std::_Exit(exit_code);
}

}  // namespace strata::torch_ranks
