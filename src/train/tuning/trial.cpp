// SPDX-License-Identifier: Apache-2.0
#include "tuning/trial.hpp"

#include <algorithm>
#include <utility>

namespace strata::train {
namespace {

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

Trial::Trial(Options options)
    : options_(std::move(options)), decided_(options_.settings <= 1), seconds_(at(options_.settings)) {}

std::function<void(std::vector<double>&)> Trial::slowest_of(const comm::Communicator& ranks) {
  return [&ranks](std::vector<double>& medians) { ranks.all_reduce(medians, comm::Communicator::Op::max); };
}

void Trial::add(double seconds) {
  if (in_window_ == 0) window_.clear();
  if (in_window_++ >= options_.warm_up) window_.push_back(seconds);
  if (in_window_ == options_.warm_up + options_.steps) end_window();
}

void Trial::end_window() {
  auto& own = seconds_[at(setting_)];
  own.insert(own.end(), window_.begin(), window_.end());
  in_window_ = 0;
  if (++setting_ < options_.settings) return;
  setting_ = 0;
  if (++round_ == options_.rounds) decide();
}

void Trial::decide() {
  for (const auto& own : seconds_) medians_.push_back(median(own));
  if (options_.agree) options_.agree(medians_);
  const auto fastest = std::ranges::min_element(medians_);
  if (*fastest < medians_.front() * (1 - options_.margin))
    setting_ = static_cast<int>(fastest - medians_.begin());
  decided_ = true;
}

}  // namespace strata::train
