#include "strata/comm/watchdog.hpp"

#include <fmt/format.h>
#include <mpi.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "heartbeats.hpp"
#include "mpi_state.hpp"
#include "strata/util/error.hpp"
#include "strata/util/format.hpp"

namespace strata::comm {
namespace {

using std::chrono::milliseconds;

constexpr int kMostNamed = 8;  // a report of a thousand waiting ranks hides the one that they wait for

/// Time is counted in ticks of the watching thread itself: a run that was suspended as a whole (Ctrl-Z, a
/// laptop's sleep) goes on, because nobody counted meanwhile.
std::int64_t ticks(milliseconds time, milliseconds period) {
  return (time.count() + period.count() - 1) / period.count();
}

void check_options(const Watchdog::Options& options) {
  if (options.period.count() > 0 && options.patience.count() >= 0 && options.silence >= 2 * options.period)
    return;
  throw InputError(
      fmt::format("a watchdog with a period of {} ms, a patience of {} ms and a silence of {} ms",
                  options.period.count(), options.patience.count(), options.silence.count()),
      "The period must be above 0, the silence at least two periods, the patience not negative.");
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
        patience_ticks(ticks(chosen.patience, chosen.period)) {}

  void watch();
  void tick();
  Heartbeat own_heartbeat();
  void check_silence();
  void check_progress();
  void stop_thread();
  std::string name(int rank) const {
    return fmt::format("rank {} (host {})", rank, hosts[static_cast<std::size_t>(rank)]);
  }
  std::string time(std::int64_t tick_count) const {
    return format_seconds(static_cast<double>(tick_count * options.period.count()) / 1000.0);
  }
  [[noreturn]] void end_run(const std::string& message) const;

  const World& world;
  const Options options;
  Communicator closing;  // of the thread that calls close(); all others belong to the watching thread
  Heartbeats heartbeats;
  const std::vector<std::string> hosts;
  const std::int64_t silence_ticks, patience_ticks;

  std::atomic<const char*> last_done{"start"};
  std::atomic<std::uint64_t> progress{0};
  std::atomic<bool> taking_time{false};
  std::uint64_t progress_seen = 0;
  std::int64_t idle_ticks = 0;

  std::mutex mutex;
  std::condition_variable stop_asked;
  bool stopping = false;
  std::thread thread;
};

void Watchdog::State::end_run(const std::string& message) const {
  fmt::print(stderr, "strata watchdog: {}\nThe run is aborted.\n", message);
  std::fflush(stderr);
  world.abort(static_cast<int>(ExitCode::failure));
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
    end_run(fmt::format("{} cannot watch any longer: {}", name(world.rank()), error.what()));
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
  return make_heartbeat(idle_ticks, last_done.load(std::memory_order_relaxed));
}

void Watchdog::State::check_silence() {
  for (const Peer& peer : heartbeats.peers()) {
    // Rank 1 speaks first when rank 0 falls silent; the others only if it cannot.
    const std::int64_t limit = silence_ticks + (world.rank() > 1 ? 2 : 0);
    if (peer.left || peer.silent_ticks < limit) continue;
    end_run(fmt::format(
        "{} has been silent for {}; its last act was: {}.\nIts process is stopped, its host is gone, or "
        "the network between it and {} is down.",
        name(peer.rank), time(peer.silent_ticks), peer.last.what, name(world.rank())));
  }
}

void Watchdog::State::check_progress() {
  if (world.rank() != 0) return;  // rank 0 hears of all, so that one message names all
  std::vector<Progress> stuck = heartbeats.stuck(own_heartbeat(), patience_ticks);
  if (stuck.empty()) return;
  std::string message =
      "no progress. The rank that has waited longest comes first, the others probably wait for it:";
  for (std::size_t i = 0; i < stuck.size() && i < kMostNamed; ++i) {
    message += fmt::format("\n  {} made no progress for {}; its last act was: {}", name(stuck[i].rank),
                           time(stuck[i].idle_ticks), stuck[i].what);
  }
  if (stuck.size() > kMostNamed) message += fmt::format("\n  and {} more", stuck.size() - kMostNamed);
  end_run(message);
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
  state_.release();  // unclosed: MPI may still read a heartbeat on its way, so its memory stays
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
  state_->closing.barrier();  // still watched: a rank that never comes is named
  state_->stop_thread();
  state_->heartbeats.close();
  state_->closing.close();
  state_.reset();
}

}  // namespace strata::comm
