// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>

#include "strata/util/error.hpp"

namespace strata::partition {

/// Thrown when a build was asked to end; what it wrote so far is removed.
class Stopped : public Error {
  using Error::Error;
};

/// Carries the request to end a build from the thread that takes signals to the build.
class StopFlag {
 public:
  void request() noexcept { requested_ = true; }
  /// Throws Stopped if a stop was requested.
  void check() const {
    if (requested_) throw Stopped("stopped by a signal; nothing was written");
  }
  /// Whether there are files that a stopped build must remove first.
  bool cleanup_needed() const noexcept { return cleanup_needed_; }
  void set_cleanup_needed(bool needed) noexcept { cleanup_needed_ = needed; }

 private:
  std::atomic<bool> requested_{false}, cleanup_needed_{false};
};

}  // namespace strata::partition
