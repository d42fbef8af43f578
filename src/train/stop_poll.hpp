// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <span>

#include "strata/comm/communicator.hpp"

namespace strata::train {

/// Ends a loop on all ranks in the same iteration after any of them was asked to stop. All ranks must make
/// equally many iterations.
class StopPoll {
 public:
  StopPoll(const comm::Communicator& communicator, std::function<bool()> requested)
      : communicator_(&communicator), requested_(std::move(requested)) {}

  /// Call it before each iteration. Returns true, on all ranks alike, if the loop must end. Collective in
  /// every fourth call, so that ranks seldom wait for each other.
  bool agreed() {
    constexpr int kTurns = 4;
    if (!stopped_ && turn_++ % kTurns == 0) {
      std::int64_t stop = requested_() ? 1 : 0;
      communicator_->all_reduce(std::span(&stop, 1), comm::Communicator::Op::max);
      stopped_ = stop != 0;
    }
    return stopped_;
  }

 private:
  const comm::Communicator* communicator_;
  std::function<bool()> requested_;
  int turn_ = 0;
  bool stopped_ = false;
};

}  // namespace strata::train
