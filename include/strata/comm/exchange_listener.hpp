// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <cstdint>

namespace strata::comm {

/// Gets a call after each exchange of messages between machines, with its times. Exchanges that work at the
/// same time call it from several threads.
///
///     listener->exchanged({.what = Messages::What::neighbors, .hop = 0, .begin = asked, .end = answered});
class ExchangeListener {
 public:
  using Clock = std::chrono::steady_clock;

  /// The time from the first byte that this rank sends or waits for, to the last.
  struct Messages {
    enum class What : std::uint8_t { neighbors, rows };
    What what;
    int hop = -1;  ///< of neighbors, from the seeds outwards; -1: none
    Clock::time_point begin, end;
  };

  virtual ~ExchangeListener() = default;
  virtual void exchanged(const Messages& messages) = 0;
};

}  // namespace strata::comm
