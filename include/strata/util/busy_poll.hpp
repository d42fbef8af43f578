// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <thread>

namespace strata {

/// Polls `done()` without sleeping; returns whether it was true before `time` had passed. Use it for what is
/// expected sooner than a sleeping thread wakes up, which takes 10 to 60 us.
template <typename Done>
bool busy_poll(std::chrono::nanoseconds time, Done&& done) {
  if (done()) return true;
  if (time.count() <= 0) return false;
  const auto deadline = std::chrono::steady_clock::now() + time;
  do {
    std::this_thread::yield();  // to the thread that works on what is expected, if cores are few
    if (done()) return true;
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

}  // namespace strata
