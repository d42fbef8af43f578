// SPDX-License-Identifier: Apache-2.0
// How runs over torch.distributed begin and end. Each scenario is run by ctest, which expects its message and
// exit code.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/FlightRecorder.hpp>
#include <vector>

#include "strata/comm/watchdog.hpp"
#include "strata/torch_ranks/torch_ranks.hpp"
#include "strata/util/error.hpp"

namespace {

using namespace std::chrono_literals;
using strata::comm::Communicator;
using strata::comm::World;

std::int64_t sum_of_ranks(const Communicator& ranks) {
  std::int64_t sum = ranks.rank();
  ranks.all_reduce(std::span(&sum, 1));
  return sum;
}

void say(const World& world, const std::string& what) {
  fmt::print("rank {} of {} over {}: {}\n", world.rank(), world.size(), world.backend(), what);
  std::fflush(stdout);
}

/// A program of another kind, which listens at the port and never answers.
void occupy_port() {
  if (std::getenv("RANK") != std::string("0")) return;
  const int listener = ::socket(AF_INET6, SOCK_STREAM, 0);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_any;
  address.sin6_port = htons(static_cast<std::uint16_t>(std::atoi(std::getenv("MASTER_PORT"))));
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      ::listen(listener, 16) != 0)
    std::perror("occupy_port");
}

/// A child of the process tries to speak for its rank.
void speak_from_a_fork(const World& world) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      world.communicator().barrier();
    } catch (const strata::CommError& error) {
      fmt::print("the fork: {}\n", error.what());
      std::fflush(stdout);
      std::_Exit(strata::format_error("", error).find("spawn") != std::string::npos ? 5 : 6);
    }
    std::_Exit(7);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  say(world, fmt::format("the fork ended with {}", WEXITSTATUS(status)));
  world.communicator().barrier();
}

void open_groups_from_threads(const World& world) {
  constexpr int kThreads = 4;
  std::vector<Communicator> parents;
  for (int t = 0; t < kThreads; ++t) parents.push_back(world.communicator().duplicate());
  std::vector<std::int64_t> sums(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        // Ranks open the groups in different orders.
        std::this_thread::sleep_for(20ms * ((t + world.rank()) % kThreads));
        Communicator own = parents[static_cast<std::size_t>(t)].duplicate();
        sums[static_cast<std::size_t>(t)] = sum_of_ranks(own);
        own.close();
      });
    }
  }
  for (Communicator& parent : parents) parent.close();
  say(world, c10d::dump_fr_trace_json(true, false).find("profiling_name") == std::string::npos
                 ? "torch recorded nothing"
                 : "torch recorded collectives");
  std::int64_t all = 0;
  for (const std::int64_t sum : sums) all += sum;
  say(world, fmt::format("threads summed {}", all));
}

/// What a rank does that is not there any more, while the others wait for it.
void leave(const World& world, const std::string& scenario) {
  if (world.rank() == world.size() - 1) {
    std::this_thread::sleep_for(300ms);
    say(world, scenario);
    if (scenario == "abort") world.abort(7);
    std::_Exit(0);
  }
  const auto start = std::chrono::steady_clock::now();
  try {
    world.communicator().barrier();
  } catch (const strata::CommError& error) {
    say(world, error.what());
    std::this_thread::sleep_for(20s);  // so that only the keepalive ends it
  }
  say(world, fmt::format("went on after {} s",
                         std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()));
}

void meet_without_one(const World& world) {
  const strata::comm::OrderlyEnd orderly_end(world.communicator());
  if (world.rank() == world.size() - 1) std::this_thread::sleep_for(1500ms);
  const auto speaker = orderly_end.meet(world.rank() == 1, 500ms);
  say(world, speaker ? fmt::format("rank {} speaks", *speaker) : "not all came");
}

void fail_on_one(const World& world) {
  world.communicator().together([&] {
    if (world.rank() == world.size() - 1) throw strata::InputError("the file is empty", "Fill it.");
  });
}

/// Short where somebody never comes; otherwise long enough for a busy machine.
std::chrono::seconds patience() { return std::getenv("IN_A_HURRY") != nullptr ? 3s : 15s; }

void run(const World& world, const std::string& scenario) {
  if (scenario == "fork") speak_from_a_fork(world);
  if (scenario == "threads") open_groups_from_threads(world);
  if (scenario == "abort" || scenario == "leave") leave(world, scenario);
  if (scenario == "orderly_end") meet_without_one(world);
  if (scenario == "input-error") fail_on_one(world);
  say(world, fmt::format("the ranks sum to {}", sum_of_ranks(world.communicator())));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string scenario = argc > 1 ? argv[1] : "meet";
  try {
    if (scenario == "busy-port") occupy_port();
    if (std::getenv("LATE") != nullptr) std::this_thread::sleep_for(1s);
    for (int time = 0; time < (scenario == "again" ? 3 : 1); ++time) {
      const World world(strata::comm::find_launcher() == strata::comm::Launcher::torch
                            ? strata::torch_ranks::backend({.patience = patience()})
                            : strata::torch_ranks::backend_of_launcher(&argc, &argv));
      run(world, scenario);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", strata::format_error("launch_scenario", error));
    return static_cast<int>(strata::exit_code(error));
  }
  return 0;
}
