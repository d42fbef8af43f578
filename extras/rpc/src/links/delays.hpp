// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <optional>
#include <random>

namespace strata::rpc {

/// STRATA_MESSAGE_DELAYS=SEED,MOST_US: received messages wait for a random time, so that tests see orders
/// that a quick network hardly shows. Those of one rank to another stay in order, as everywhere. A value.
struct DelaySettings {
  unsigned seed = 0;
  std::chrono::microseconds most{0};

  /// Parses a setting; nothing for a null. Throws InputError if the text is no such setting.
  static std::optional<DelaySettings> parse(const char* text);
};

/// The delays of messages from one rank to another, one after the other.
class Delays {
 public:
  Delays(const DelaySettings& settings, int from, int to);

  /// The next delay: zero for every other message on average, so that many come at once.
  std::chrono::microseconds next();

 private:
  std::mt19937 random_;
  const std::chrono::microseconds most_;
};

}  // namespace strata::rpc
