// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <vector>

#include "strata/comm/communicator.hpp"
#include "strata/torch_ranks/torch_ranks.hpp"

/// Common code of the benchmarks of this folder.
namespace strata::benchmarks {

struct Times {
  double median_us, p99_us;
};

/// Measures `count` calls after `warm_up` more.
inline Times measure(int count, int warm_up, const std::function<void()>& run) {
  std::vector<double> times;
  for (int i = 0; i < warm_up + count; ++i) {
    const auto begun = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - begun;
    if (i >= warm_up) times.push_back(taken.count());
  }
  std::ranges::sort(times);
  return {times[times.size() / 2], times[times.size() * 99 / 100]};
}

/// The main function of a benchmark of several ranks.
inline int run_on_ranks(int argc, char** argv, void (*run)(const comm::Communicator& ranks)) {
  try {
    const comm::World world(torch_ranks::backend_of_launcher(&argc, &argv));
    run(world.communicator());
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}

}  // namespace strata::benchmarks
