#include "share_tuner.hpp"

#include <algorithm>

namespace strata::store {
namespace {

constexpr int kBalancing = 6;       // jobs after which the point where both end together is known
constexpr std::size_t kRounds = 3;  // of candidates
constexpr double kLeast = 1.0 / 64, kMost = 63.0 / 64;  // while balancing, each side must show its rate

}  // namespace

double ShareTuner::Trial::rate() const {
  return Side{threads.rows + kernel.rows, std::max(threads.seconds, kernel.seconds)}.rate();
}

bool ShareTuner::settled() const { return !candidates_.empty() && tried_ == kRounds * candidates_.size(); }

void ShareTuner::choose_candidates() {
  for (const double share : {share_, (share_ + 1) / 2, share_ * 3 / 4, 1.0, 0.0})
    candidates_.push_back({share});
}

void ShareTuner::add(const Trial& trial) {
  if (settled()) return;
  if (balancing_ < kBalancing) {
    ++balancing_;
    const double both = trial.threads.rate() + trial.kernel.rate();
    if (both > 0) share_ = std::clamp(trial.threads.rate() / both, kLeast, kMost);
    if (balancing_ == kBalancing) choose_candidates();
  } else {
    Trial& sum = candidates_[tried_++ % candidates_.size()].sum;
    sum.share = trial.share;
    const auto add_side = [](Side& to, const Side& side) {
      to.rows += side.rows;
      to.seconds += side.seconds;
    };
    add_side(sum.threads, trial.threads);
    add_side(sum.kernel, trial.kernel);
  }
  if (!settled()) {
    if (!candidates_.empty()) share_ = candidates_[tried_ % candidates_.size()].share;
    return;
  }
  const auto rate = [](const Candidate& c) { return c.sum.rate(); };
  best_ = std::ranges::max_element(candidates_, {}, rate)->sum;
  share_ = best_.share;
}

}  // namespace strata::store
