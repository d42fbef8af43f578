// SPDX-License-Identifier: Apache-2.0
#include "host_path/share_tuner.hpp"

#include <algorithm>

namespace strata::tensor {
namespace {

constexpr int kBalancing = 6;       // jobs to find the share with which both end together
constexpr std::size_t kRounds = 3;  // of candidates
// while balancing, so that the rates of both sides can be measured
constexpr double kLeast = 1.0 / 64, kMost = 63.0 / 64;

}  // namespace

double ShareTuner::Trial::rate() const {
  return Side{threads.rows + kernel.rows, std::max(threads.seconds, kernel.seconds)}.rate();
}

double ShareTuner::Candidate::middle_rate() const {
  std::vector<double> sorted = rates;
  std::ranges::sort(sorted);
  return sorted[sorted.size() / 2];
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
    Candidate& candidate = candidates_[tried_++ % candidates_.size()];
    candidate.rates.push_back(trial.rate());
    Trial& sum = candidate.sum;
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
  best_ = std::ranges::max_element(candidates_, {}, &Candidate::middle_rate)->sum;
  share_ = best_.share;
}

}  // namespace strata::tensor
