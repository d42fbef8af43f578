#include "share_tuner.hpp"

#include <algorithm>

namespace strata::store {
namespace {

constexpr int kWarmUp = 1;     // the first job loads kernels and touches the ring for the first time
constexpr int kBalancing = 6;  // jobs after which the point where both end together is known
constexpr double kLeast = 1.0 / 64, kMost = 63.0 / 64;  // while balancing, each side must show its rate

}  // namespace

double ShareTuner::Trial::rate() const {
  return Side{threads.rows + kernel.rows, std::max(threads.seconds, kernel.seconds)}.rate();
}

bool ShareTuner::settled() const { return trials_ == kBalancing + 2; }

void ShareTuner::add(const Trial& trial) {
  if (settled()) return;
  ++trials_;
  if (trials_ > kWarmUp && trial.rate() > best_.rate()) best_ = trial;
  if (trials_ < kBalancing) {
    const double both = trial.threads.rate() + trial.kernel.rate();
    if (both > 0) share_ = std::clamp(trial.threads.rate() / both, kLeast, kMost);
  } else if (trials_ == kBalancing) {
    share_ = 1;
  } else {
    share_ = settled() ? best_.share : 0;
  }
}

}  // namespace strata::store
