// SPDX-License-Identifier: Apache-2.0
// What a run looks like that falls silent. Each scenario is run by ctest, which expects its message and exit
// code.
#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "strata/comm/watchdog.hpp"
#include "strata/util/error.hpp"
#include "support/start_ranks.hpp"

namespace {

using namespace std::chrono_literals;
using strata::comm::Watchdog;
using strata::comm::World;

/// Makes progress for longer than the patience.
void work_for_a_while(Watchdog& watchdog) {
  for (int step = 0; step < 40; ++step) {
    watchdog.alive("train a batch");
    std::this_thread::sleep_for(50ms);
  }
}

/// What takes longer than the patience, and for which the others wait.
void start_slowly(const World& world, Watchdog& watchdog) {
  watchdog.take_time("load the graph");
  if (world.rank() == world.size() - 1) std::this_thread::sleep_for(2s);
  world.communicator().barrier();
}

/// The first rank writes for longer than the patience; the others go on, and wait for it in their next step.
void write_slowly(const World& world, Watchdog& watchdog) {
  for (int checkpoint = 0; checkpoint < 2; ++checkpoint) {
    watchdog.take_time("write a checkpoint");
    if (world.rank() == 0) std::this_thread::sleep_for(2s);
    watchdog.alive("train a batch");
    world.communicator().barrier();
  }
}

/// All ranks send much to each other in one piece: on a slow network for longer than the silence.
void send_in_bulk(const World& world, Watchdog& watchdog) {
  watchdog.alive("send in bulk");
  constexpr strata::Count kBytes = 300 << 20;
  const auto size = static_cast<std::size_t>(world.size());
  std::vector<strata::Count> bytes(size, kBytes);
  bytes[static_cast<std::size_t>(world.rank())] = 0;
  std::vector<char> sent(kBytes * (size - 1)), received(kBytes * (size - 1));
  world.communicator().all_to_all(sent.data(), bytes, received.data(), bytes);
}

/// All others wait in a barrier for a rank that never comes.
void leave_others_waiting(const World& world, Watchdog& watchdog, int missing, bool stopped) {
  if (world.rank() != missing) {
    watchdog.alive("wait in a barrier");
  } else if (stopped) {
    watchdog.alive("read the part file");
    std::this_thread::sleep_for(300ms);  // so that the others have heard of it
    raise(SIGSTOP);
  } else {
    std::this_thread::sleep_for(1h);
  }
  world.communicator().barrier();
}

/// Until somebody ends it from outside.
[[noreturn]] void work_for_ever(Watchdog& watchdog) {
  for (;;) work_for_a_while(watchdog);
}

void run(const World& world, const std::string& scenario) {
  const bool patient =
      scenario == "stuck" || scenario == "healthy" || scenario == "slow-start" || scenario == "slow-write";
  // Where nobody falls silent a busy machine must not look like silence; and when the network breaks, mpirun
  // must notice first.
  const bool asked_to_stop = scenario == "stopped-after-signal";
  const bool falls_silent = scenario == "stopped" || scenario == "stopped-root" || asked_to_stop;
  const auto silence = falls_silent ? 1500ms : 30000ms;
  Watchdog watchdog(
      world, {.period = 50ms, .patience = patient ? 1000ms : 0ms, .silence = silence, .stop_requested = [=] {
                return asked_to_stop;
              }});
  if (scenario == "healthy") work_for_a_while(watchdog);
  if (scenario == "slow-start") start_slowly(world, watchdog);
  if (scenario == "endless") work_for_ever(watchdog);
  if (scenario == "late" && world.rank() == world.size() - 1) std::this_thread::sleep_for(2s);
  if (scenario == "bulk") send_in_bulk(world, watchdog);
  if (scenario == "slow-write") write_slowly(world, watchdog);
  if (scenario == "stopped" || asked_to_stop) leave_others_waiting(world, watchdog, world.size() - 1, true);
  if (scenario == "stopped-root") leave_others_waiting(world, watchdog, 0, true);
  if (scenario == "stuck") {
    watchdog.take_time("load the graph");  // over with the next act
    // The others start to wait later, so the stuck rank has waited longest.
    watchdog.alive(world.rank() == world.size() - 1 ? "gather rows" : "start");
    if (world.rank() != world.size() - 1) {
      std::this_thread::sleep_for(400ms);
      watchdog.alive("step");
    }
    leave_others_waiting(world, watchdog, world.size() - 1, false);
  }
  if (scenario == "unclosed") {
    fmt::print("rank {} left unclosed\n", world.rank());
    return;
  }
  watchdog.close();
  fmt::print("rank {} ended in order\n", world.rank());
}

bool is_refused(const World& world, const Watchdog::Options& options) {
  try {
    Watchdog watchdog(world, options);
  } catch (const strata::InputError&) {
    return true;
  }
  return false;
}

void refuse_bad_options(const World& world) {
  const bool all = is_refused(world, {.period = 0ms}) && is_refused(world, {.patience = -1ms}) &&
                   is_refused(world, {.period = 1000ms, .silence = 1000ms}) &&
                   is_refused(world, {.silence = 7000ms, .busy_silence = 6000ms});
  fmt::print("rank {} {}\n", world.rank(), all ? "refused bad options" : "took bad options");
}

}  // namespace

int main(int argc, char** argv) {
  const World world(strata::test::start_ranks(&argc, &argv));
  const std::string scenario = argc > 1 ? argv[1] : "healthy";
  if (scenario == "bad-options") {
    refuse_bad_options(world);
  } else {
    run(world, scenario);
  }
  return 0;
}
