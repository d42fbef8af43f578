// SPDX-License-Identifier: Apache-2.0
#include "tuning/sm_measurement.hpp"

#include <fmt/format.h>

#include <array>

#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata::train {
namespace {

using Kind = SmSplitRequest::Kind;

// The splits to try. Gathers over PCIe and NVLink need few SMs, and sampling needs more; training may avoid
// these SMs or not.
constexpr std::array<cuda::SmShares, 4> kCandidates{{{20, 80}, {20, 100}, {40, 100}, {60, 100}}};
constexpr int kWarmUp = 10, kTimed = 20;  // steps: the ring fills, graphs are recorded
constexpr Count kSegment = kWarmUp + kTimed;
// All segments together cost some tenths of a second more than the same steps without measuring.
constexpr double kLeastSeconds = 10;

double seconds_between(std::chrono::steady_clock::time_point begin,
                       std::chrono::steady_clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

/// "a step takes 0.750 ms with off, 0.771 ms with 10,90".
std::string text_of(const std::vector<SmSplitResult::Time>& times) {
  constexpr double kMilli = 1e3;
  std::string text;
  for (const auto& time : times)
    text += fmt::format("{} {:.3f} ms with {}", text.empty() ? "a step takes" : ",", time.seconds * kMilli,
                        name_of(time.shares));
  return text;
}

}  // namespace

SmMeasurement::SmMeasurement(const Parts& parts) : parts_(parts), sms_(parts.device, *parts.pipeline) {
  const SmSplitRequest request = parse_sm_split(parts.requested);
  if (request.kind != Kind::automatic || !parts.measures) phase_ = Phase::settled;
  if (request.kind != Kind::given) return;
  const auto refuse = [&](const std::string& why) {
    throw InputError(fmt::format("--sm-split {} is not possible here: {}", parts.requested, why),
                     "Leave it out, or give off.");
  };
  try {
    sms_.move_to(cuda::split_sms(parts.device, request.shares));
    message_ = sms_.describe();
  } catch (const CudaError& e) {
    refuse(e.what());
  }
}

void SmMeasurement::stay_off(const std::string& reason) {
  phase_ = Phase::settled;
  message_ = "SMs are not split: " + reason;
}

Count SmMeasurement::begin_segment(const Ahead& ahead) {
  if (phase_ != Phase::settled && ahead.end < kSegment)
    stay_off(fmt::format("epochs of {} steps are too short to measure what would be faster", ahead.end));
  if (phase_ == Phase::settled) return ahead.end;
  timed_ = ahead.end - ahead.first >= kSegment;
  if (phase_ == Phase::measuring) move_to(splits_[timed_ ? at(trial_->setting()) : 0]);
  steps_ = 0;
  left_ = ahead.all - kSegment;
  last_ = Clock::now();
  return timed_ ? ahead.first + kSegment : ahead.end;
}

void SmMeasurement::end_step() {
  if (!timed_ || steps_ == kSegment) return;  // a segment is longer where an update's batches are
  ++steps_;
  if (phase_ == Phase::settling && steps_ != kWarmUp) return;
  const auto now = Clock::now();
  const auto before = std::exchange(last_, now);
  if (phase_ == Phase::measuring) trial_->add(seconds_between(before, now));
}

void SmMeasurement::end_segment() {
  if (!std::exchange(timed_, false) || steps_ < kSegment) return;
  if (phase_ == Phase::settling) begin_measuring();
  if (phase_ == Phase::measuring && trial_->decided()) conclude();
}

void SmMeasurement::begin_measuring() {
  double seconds = seconds_between(last_, Clock::now()) / kTimed * static_cast<double>(left_);
  parts_.world->all_reduce(std::span(&seconds, 1), comm::Communicator::Op::max);
  if (seconds < kLeastSeconds)
    return stay_off(
        fmt::format("a run of {} is too short to measure what would be faster", format_seconds(seconds)));
  make_splits();
  if (phase_ == Phase::settled) return;
  phase_ = Phase::measuring;
  trial_.emplace(Trial::Options{.settings = static_cast<int>(splits_.size()),
                                .warm_up = kWarmUp,
                                .steps = kTimed,
                                .agree = Trial::slowest_of(*parts_.world)});
}

void SmMeasurement::make_splits() {
  std::int64_t possible = 1;
  std::string reason = "another rank's GPU cannot";
  splits_ = {{kNoSmSplit, {}}};
  try {
    for (const cuda::SmShares& shares : kCandidates)
      splits_.emplace_back(shares, cuda::split_sms(parts_.device, shares));
  } catch (const CudaError& e) {
    possible = 0;
    reason = e.what();
  }
  parts_.world->all_reduce(std::span(&possible, 1), comm::Communicator::Op::min);
  if (possible == 0) stay_off(reason);
}

void SmMeasurement::move_to(const Split& split) {
  if (sms_.are(split.second)) return;
  parts_.steps->forget_graphs();
  sms_.move_to(split.second);
}

void SmMeasurement::conclude() {
  const Split& choice = splits_[at(trial_->setting())];
  move_to(choice);
  result_ = {.times = {}, .choice = choice.first};
  for (std::size_t i = 0; i < splits_.size(); ++i)
    result_->times.push_back({splits_[i].first, trial_->medians()[i]});
  message_ = fmt::format("{}: {}", sms_.describe(), text_of(result_->times));
  phase_ = Phase::settled;
  trial_.reset();
  splits_.clear();
}

}  // namespace strata::train
