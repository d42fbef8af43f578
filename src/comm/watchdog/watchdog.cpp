// SPDX-License-Identifier: Apache-2.0
#include "strata/comm/watchdog.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "state.hpp"
#include "strata/util/error.hpp"
#include "strata/util/text.hpp"
#include "watchdog/heartbeats.hpp"

namespace strata::comm {
namespace {

using std::chrono::milliseconds;

// A report of a thousand waiting ranks hides the one that they wait for.
constexpr std::size_t kMostNamed = 8;

/// Time is counted in ticks of the watching thread. So a run that was suspended as a whole (Ctrl-Z, a
/// laptop's sleep) goes on, because no thread counted meanwhile.
std::int64_t ticks(milliseconds time, milliseconds period) {
  return (time.count() + period.count() - 1) / period.count();
}

void check_options(const Watchdog::Options& options) {
  if (options.period.count() > 0 && options.patience.count() >= 0 && options.silence >= 2 * options.period &&
      options.busy_silence >= options.silence)
    return;
  throw InputError(
      fmt::format("a watchdog with a period of {} ms, a patience of {} ms, a silence of {} ms and "
                  "{} ms of silence while a rank is busy",
                  options.period.count(), options.patience.count(), options.silence.count(),
                  options.busy_silence.count()),
      "The period must be above 0, the silence at least two periods, that of busy ranks not "
      "shorter, the patience not negative.");
}

}  // namespace

struct Watchdog::State {
  State(const World& owner, const Options& chosen)
      : world(owner),
        options(chosen),
        closing(owner.communicator().duplicate()),
        heartbeats(owner.communicator().duplicate()),
        hosts(closing.all_gather(owner.host())),
        silence_ticks(ticks(chosen.silence, chosen.period)),
        busy_silence_ticks(ticks(chosen.busy_silence, chosen.period)),
        patience_ticks(ticks(chosen.patience, chosen.period)) {}

  void watch();
  void tick();
  Heartbeat own_heartbeat();
  void check_silence();
  void check_progress();
  void stop_thread();
  std::string name(int rank) const { return fmt::format("rank {} (host {})", rank, hosts[at(rank)]); }
  std::string time(std::int64_t tick_count) const {
    return format_seconds(static_cast<double>(tick_count * options.period.count()) / 1000.0);
  }
  bool is_silent(const Peer& peer, std::int64_t earlier) const;
  std::vector<Peer> silent_peers() const;
  [[noreturn]] void end_run(const std::string& message, const std::vector<int>& ranks,
                            ExitCode code = ExitCode::failure) const;

  const World& world;
  const Options options;
  Communicator closing;  // of the thread that calls close(); all others belong to the watching thread
  Heartbeats heartbeats;
  const std::vector<std::string> hosts;
  const std::int64_t silence_ticks, busy_silence_ticks, patience_ticks;

  std::atomic<const char*> last_done{"start"};
  std::atomic<std::uint64_t> progress{0};
  std::atomic<bool> taking_time{false};
  std::uint64_t progress_seen = 0;
  std::int64_t idle_ticks = 0;
  std::int64_t ticks_since_busy = 0;  // since any rank was busy, as far as this rank has heard

  std::mutex mutex;
  std::condition_variable stop_asked;
  bool stopping = false;
  std::thread thread;
};

void Watchdog::State::end_run(const std::string& message, const std::vector<int>& ranks,
                              ExitCode code) const {
  if (options.last_words) world.abort(options.last_words(message, ranks));
  fmt::print(stderr, "strata watchdog: {}\nThe run is aborted.\n{}", message,
             options.advice.empty() ? std::string() : options.advice + "\n");
  std::fflush(stderr);
  world.abort(static_cast<int>(code));
}

void Watchdog::State::watch() {
  try {
    std::unique_lock lock(mutex);
    while (!stop_asked.wait_for(lock, options.period, [this] { return stopping; })) {
      lock.unlock();
      tick();
      lock.lock();
    }
  } catch (const std::exception& error) {
    end_run(fmt::format("{} cannot watch any longer: {}", name(world.rank()), error.what()), {world.rank()});
  }
}

void Watchdog::State::tick() {
  const std::uint64_t now = progress.load(std::memory_order_relaxed);
  idle_ticks = now == progress_seen && !taking_time ? idle_ticks + 1 : 0;
  progress_seen = now;
  heartbeats.tick(own_heartbeat());
  check_silence();
  if (options.patience.count() > 0) check_progress();
}

Heartbeat Watchdog::State::own_heartbeat() {
  return make_heartbeat(idle_ticks, last_done.load(std::memory_order_relaxed), taking_time);
}

/// Whether this peer has reached the limit, or will reach it within `earlier` ticks.
bool Watchdog::State::is_silent(const Peer& peer, std::int64_t earlier) const {
  // Rank 1 reports that rank 0 fell silent; the others do so only if rank 1 cannot.
  const std::int64_t limit =
      (peer.last.busy != 0 ? busy_silence_ticks : silence_ticks) + (world.rank() > 1 ? 2 : 0);
  return !peer.left && peer.silent_ticks + earlier >= limit;
}

/// The silent peers: none until one has reached its limit; then also those that are about to, such as the
/// other ranks of the same host.
std::vector<Peer> Watchdog::State::silent_peers() const {
  const std::vector<Peer>& peers = heartbeats.peers();
  const auto silent = [&](std::int64_t earlier) {
    return [this, earlier](const Peer& peer) { return is_silent(peer, earlier); };
  };
  std::vector<Peer> found;
  if (std::any_of(peers.begin(), peers.end(), silent(0)))
    std::copy_if(peers.begin(), peers.end(), std::back_inserter(found), silent(2));
  return found;
}

void Watchdog::State::check_silence() {
  const std::vector<Peer> silent = silent_peers();
  if (silent.empty()) return;
  std::string message;
  for (std::size_t i = 0; i < silent.size() && i < kMostNamed; ++i) {
    message += fmt::format("{} has been silent for {}; its last act was: {}.\n", name(silent[i].rank),
                           time(silent[i].silent_ticks), silent[i].last.what);
  }
  if (silent.size() > kMostNamed) message += fmt::format("So have {} more.\n", silent.size() - kMostNamed);
  message += fmt::format("{} stopped, {} host is gone, or the network to {} is down.",
                         silent.size() == 1 ? "Its process is" : "Their processes are",
                         silent.size() == 1 ? "its" : "their", name(world.rank()));
  std::vector<int> ranks;
  for (const Peer& peer : silent) ranks.push_back(peer.rank);
  if (!options.stop_requested()) end_run(message, ranks);
  end_run(message + "\nA signal had asked this run to stop, but without them no checkpoint could be written.",
          ranks, ExitCode::stopped_unsaved);
}

void Watchdog::State::check_progress() {
  if (world.rank() != 0) return;  // rank 0 hears all ranks, so that one message names all silent ones
  const Heartbeat own = own_heartbeat();
  ticks_since_busy = heartbeats.any_busy(own) ? 0 : ticks_since_busy + 1;
  if (ticks_since_busy < patience_ticks) return;  // ranks that waited for a busy rank need time to go on
  std::vector<Progress> stuck = heartbeats.stuck(own, patience_ticks);
  if (stuck.empty()) return;
  std::string message =
      "no progress. The rank that has waited longest comes first, the others probably wait for it:";
  for (std::size_t i = 0; i < stuck.size() && i < kMostNamed; ++i) {
    message += fmt::format("\n  {} made no progress for {}; its last act was: {}", name(stuck[i].rank),
                           time(stuck[i].idle_ticks), stuck[i].what);
  }
  if (stuck.size() > kMostNamed) message += fmt::format("\n  and {} more", stuck.size() - kMostNamed);
  end_run(message, {stuck.front().rank});
}

void Watchdog::State::stop_thread() {
  {
    const std::lock_guard lock(mutex);
    stopping = true;
  }
  stop_asked.notify_all();
  if (thread.joinable()) thread.join();
}

Watchdog::Watchdog(const World& world, const Options& options) {
  check_options(options);
  state_ = std::make_unique<State>(world, options);
  state_->thread = std::thread([state = state_.get()] { state->watch(); });
}

Watchdog::~Watchdog() {
  if (!state_) return;
  state_->stop_thread();
  state_.release();  // not closed: a heartbeat may still be on its way, so its memory must stay
}

void Watchdog::alive(const char* what) noexcept {
  state_->last_done.store(what, std::memory_order_relaxed);
  state_->taking_time.store(false, std::memory_order_relaxed);
  state_->progress.fetch_add(1, std::memory_order_relaxed);
}

void Watchdog::take_time(const char* what) noexcept {
  alive(what);
  state_->taking_time.store(true, std::memory_order_relaxed);
}

void Watchdog::close() {
  if (!state_) return;
  alive("waiting for all ranks to end");
  state_->closing.barrier();  // still watched, so that a rank that never comes is named
  state_->stop_thread();
  state_->heartbeats.close();
  state_->closing.close();
  state_.reset();
}

}  // namespace strata::comm
