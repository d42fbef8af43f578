#include "sm_measurement.hpp"

#include <fmt/format.h>

#include <array>

#include "strata/util/error.hpp"
#include "strata/util/format.hpp"

namespace strata::train {
namespace {

using Kind = SmSplitRequest::Kind;

// Loading needs few SMs; whether training keeps away from them is the other question.
constexpr std::array<cuda::SmShares, 4> kCandidates{{{10, 90}, {20, 80}, {20, 100}, {40, 100}}};
constexpr int kWarmUp = 10, kTimed = 20;  // steps: the ring fills, graphs are recorded
constexpr Count kSegment = kWarmUp + kTimed;
constexpr Count kLeastSteps = 1000;  // of a run that is worth it

/// "a step takes 0.750 ms with off, 0.771 ms with 10,90".
std::string text_of(const std::vector<SmMeasurement::Time>& times) {
  constexpr double kMilli = 1e3;
  std::string text;
  for (const auto& time : times)
    text += fmt::format("{} {:.3f} ms with {}", text.empty() ? "a step takes" : ",", time.seconds * kMilli,
                        name_of(time.shares));
  return text;
}

}  // namespace

SmMeasurement::SmMeasurement(const Parts& parts) : parts_(parts), sms_(parts.device, *parts.loader) {
  const SmSplitRequest request = parse_sm_split(parts.wish);
  settled_ = request.kind != Kind::automatic || !parts.device.is_cuda() || !parts.pipeline;
  if (request.kind != Kind::given) return;
  const auto refuse = [&](const std::string& why) {
    throw InputError(fmt::format("--sm-split {} is not possible here: {}", parts.wish, why),
                     "Leave it out, or give off.");
  };
  if (!parts.device.is_cuda()) refuse("this run computes on the cpu");
  try {
    sms_.move_to(cuda::split_sms(parts.device, request.shares));
    news_ = sms_.describe();
  } catch (const CudaError& e) {
    refuse(e.what());
  }
}

/// Returns what stands against it; the same on all ranks but for the words.
std::string SmMeasurement::make_splits() {
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
  return possible == 1 ? "" : reason;
}

std::string SmMeasurement::why_not(const Ahead& ahead) {
  if (ahead.all < kLeastSteps)
    return fmt::format("{} steps are too few to measure what would be faster", format_count(ahead.all));
  if (ahead.end < kSegment)
    return fmt::format("epochs of {} steps are too short to measure what would be faster", ahead.end);
  return make_splits();
}

void SmMeasurement::move_to(const Split& split) {
  if (sms_.are(split.second)) return;
  parts_.steps->forget_graphs();
  sms_.move_to(split.second);
}

Count SmMeasurement::begin_segment(const Ahead& ahead) {
  if (!settled_ && !trial_) {
    const std::string reason = why_not(ahead);
    settled_ = !reason.empty();
    if (settled_)
      news_ = "SMs are not split: " + reason;
    else
      trial_.emplace(Trial::Options{.settings = static_cast<int>(splits_.size()),
                                    .warm_up = kWarmUp,
                                    .steps = kTimed,
                                    .agree = [world = parts_.world](std::vector<double>& medians) {
                                      world->all_reduce(medians, comm::Communicator::Op::max);
                                    }});
  }
  if (settled_) return ahead.end;
  timed_ = ahead.end - ahead.first >= kSegment;
  move_to(splits_[timed_ ? static_cast<std::size_t>(trial_->setting()) : 0]);
  last_ = Clock::now();
  return timed_ ? ahead.first + kSegment : ahead.end;
}

void SmMeasurement::end_step() {
  if (!timed_) return;
  const auto now = Clock::now();
  trial_->add(std::chrono::duration<double>(now - std::exchange(last_, now)).count());
}

void SmMeasurement::end_segment() {
  if (std::exchange(timed_, false) && trial_->decided()) conclude();
}

void SmMeasurement::conclude() {
  const Split& choice = splits_[static_cast<std::size_t>(trial_->setting())];
  move_to(choice);
  result_ = {.times = {}, .choice = choice.first};
  for (std::size_t i = 0; i < splits_.size(); ++i)
    result_->times.push_back({splits_[i].first, trial_->medians()[i]});
  news_ = fmt::format("{}: {}", sms_.describe(), text_of(result_->times));
  settled_ = true;
  trial_.reset();
  splits_.clear();
}

}  // namespace strata::train
