// SPDX-License-Identifier: Apache-2.0
// presence_scenario all|late: the last rank comes in time, or too late.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>
#include <thread>

#include "strata/comm/watchdog.hpp"

int main(int argc, char** argv) {
  using namespace std::chrono_literals;
  const bool late = argc > 1 && argv[1] == std::string_view("late");
  const strata::comm::World world(&argc, &argv);
  if (late && world.rank() == world.size() - 1) std::this_thread::sleep_for(20s);
  const strata::comm::Presence presence =
      strata::comm::check_presence(world, "I am " + std::to_string(world.rank()), late ? 1000ms : 20000ms);
  if (presence.complete) {
    world.communicator().barrier();  // messages pass as before
    if (world.rank() == 0) fmt::print("all are here: {}\n", fmt::join(presence.words, ", "));
    return 0;
  }
  if (world.rank() != 0) std::this_thread::sleep_for(20s);  // rank 0 ends the run
  fmt::print("missing: {}\n", fmt::join(presence.missing, ", "));
  std::fflush(stdout);
  world.abort(2);
}
