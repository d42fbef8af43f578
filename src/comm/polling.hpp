// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <thread>

namespace strata::comm {

/// Polls `done`, for events that notify nobody, until it is true or the time is over; returns whether it was.
template <typename Done>
bool poll_until(std::chrono::steady_clock::time_point deadline, Done&& done) {
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace strata::comm
