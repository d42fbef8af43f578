// SPDX-License-Identifier: Apache-2.0
// usage: killed_agent_scenario idle|call
// The last of three ranks is killed while it waits, or while it runs a call of rank 0. Ranks 0 and 1 hear of
// it and go on with each other.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "strata/rpc/agent.hpp"
#include "strata/torch_ranks/torch_ranks.hpp"

namespace {

using strata::rpc::Agent;
using strata::rpc::Registry;

int add(int a, int b) { return a + b; }
int sleep_long() {
  std::this_thread::sleep_for(std::chrono::minutes(5));
  return 0;
}
std::atomic<bool>& finished() {
  static std::atomic<bool> flag{false};
  return flag;
}
int finish() {
  finished() = true;
  return 0;
}
int die() { return std::raise(SIGKILL); }

void talk(Agent& agent, const std::string& when) {
  strata::rpc::Future<int> waiting;
  if (when == "call") {
    waiting = agent.async("worker2", &sleep_long);
  }
  try {
    agent.sync("worker2", &die);
  } catch (const strata::CommError& error) {
    fmt::print("rank 0 heard: {}\n", error.what());
  }
  try {
    if (when == "call") waiting.wait();
  } catch (const strata::CommError& error) {
    fmt::print("and of the other call: {}\n", error.what());
  }
  fmt::print("worker1 still adds: {}\n", agent.sync("worker1", &add, 20, 22));
  std::fflush(stdout);
  agent.async("worker1", &finish);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string when = argc > 1 ? argv[1] : "idle";
  const auto backend = strata::torch_ranks::backend({.ends_with_others = false});
  const strata::comm::World world(backend);
  Registry registry;
  registry.function("add", &add)
      .function("sleep_long", &sleep_long)
      .function("die", &die)
      .function("finish", &finish);
  Agent agent(world.communicator(), fmt::format("worker{}", world.rank()), registry, {.threads = 2});
  if (world.rank() == 0) talk(agent, when);
  while (world.rank() != 0 && !finished()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  agent.shutdown(Agent::Ending::at_once);
  std::_Exit(0);  // the world cannot end in order any more
}
