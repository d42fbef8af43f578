// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <thread>

#include "strata/comm/communicator.hpp"

namespace strata::test {

/// Prints this process's id, as killed_rank.sh expects, and kills the process of the last rank in a moment.
inline std::jthread kill_last_rank(const comm::World& world) {
  fmt::print("pid {}\n", ::getpid());
  std::fflush(stdout);
  if (world.rank() < world.size() - 1) return {};
  return std::jthread([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    ::kill(::getpid(), SIGKILL);
  });
}

}  // namespace strata::test
