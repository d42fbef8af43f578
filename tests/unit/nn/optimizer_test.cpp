// SPDX-License-Identifier: Apache-2.0
#include "strata/nn/optimizer.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <cmath>
#include <random>

namespace strata::nn {
namespace {

constexpr std::int64_t kCount = 1000;
constexpr int kSteps = 25;

std::vector<double> random_values(std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<double> values(kCount);
  for (double& value : values) value = normal(random);
  return values;
}

at::Tensor to_tensor(const std::vector<double>& values) {
  at::Tensor tensor = at::empty({kCount}, at::kFloat);
  for (std::int64_t i = 0; i < kCount; ++i)
    tensor.mutable_data_ptr<float>()[i] = static_cast<float>(values[at(i)]);
  return tensor;
}

/// One element at a time, in f64, as the papers write it.
class NaiveOptimizer {
 public:
  explicit NaiveOptimizer(const OptimizerOptions& options)
      : options_(options), first_(kCount), second_(kCount) {}

  void step(std::vector<double>& values, const std::vector<double>& gradients) {
    ++steps_;
    for (std::size_t i = 0; i < values.size(); ++i) {
      double gradient = gradients[i];
      if (options_.kind == OptimizerKind::adamw) {
        values[i] -= options_.learning_rate * options_.weight_decay * values[i];
      } else {
        gradient += options_.weight_decay * values[i];
      }
      values[i] -= options_.learning_rate *
                   (options_.kind == OptimizerKind::sgd ? gradient : adam_direction(i, gradient));
    }
  }

 private:
  double adam_direction(std::size_t i, double gradient) {
    first_[i] = 0.9 * first_[i] + 0.1 * gradient;
    second_[i] = 0.999 * second_[i] + 0.001 * gradient * gradient;
    const double first = first_[i] / (1 - std::pow(0.9, steps_));
    const double second = second_[i] / (1 - std::pow(0.999, steps_));
    return first / (std::sqrt(second) + 1e-8);
  }

  OptimizerOptions options_;
  std::vector<double> first_, second_;
  int steps_ = 0;
};

class OptimizerTest : public testing::TestWithParam<OptimizerOptions> {};

TEST_P(OptimizerTest, EqualsTheNaiveLoop) {
  std::mt19937 random(5);
  std::vector<double> expected = random_values(random);
  const at::Tensor values = to_tensor(expected);
  const auto optimizer = make_optimizer(GetParam(), values);
  NaiveOptimizer naive(GetParam());
  for (int s = 0; s < kSteps; ++s) {
    const auto gradients = random_values(random);
    optimizer->step(values, to_tensor(gradients));
    naive.step(expected, gradients);
  }
  EXPECT_EQ(optimizer->counters().steps, kSteps);
  double worst = 0;
  for (std::int64_t i = 0; i < kCount; ++i) {
    const double difference = std::abs(values.const_data_ptr<float>()[i] - expected[at(i)]);
    ASSERT_FALSE(std::isnan(difference));
    worst = std::max(worst, difference);
  }
  EXPECT_LT(worst, 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Kinds, OptimizerTest,
                         testing::Values(OptimizerOptions{OptimizerKind::sgd, 0.01, 0},
                                         OptimizerOptions{OptimizerKind::sgd, 0.01, 0.1},
                                         OptimizerOptions{OptimizerKind::adam, 0.01, 0},
                                         OptimizerOptions{OptimizerKind::adam, 0.01, 0.1},
                                         OptimizerOptions{OptimizerKind::adamw, 0.01, 0},
                                         OptimizerOptions{OptimizerKind::adamw, 0.01, 0.1}),
                         [](const auto& info) {
                           return std::string(enum_name(info.param.kind)) +
                                  (info.param.weight_decay > 0 ? "WithDecay" : "");
                         });

std::unique_ptr<torch::optim::Optimizer> torch_optimizer(const OptimizerOptions& options,
                                                         const at::Tensor& values) {
  const std::vector<at::Tensor> parameters{values};
  if (options.kind == OptimizerKind::sgd) {
    return std::make_unique<torch::optim::SGD>(
        parameters, torch::optim::SGDOptions(options.learning_rate).weight_decay(options.weight_decay));
  }
  if (options.kind == OptimizerKind::adam) {
    return std::make_unique<torch::optim::Adam>(
        parameters, torch::optim::AdamOptions(options.learning_rate).weight_decay(options.weight_decay));
  }
  return std::make_unique<torch::optim::AdamW>(
      parameters, torch::optim::AdamWOptions(options.learning_rate).weight_decay(options.weight_decay));
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor difference = a.sub(b).abs();
  return difference.isnan().any().item<bool>() ? HUGE_VAL : difference.max().item<double>();
}

TEST_P(OptimizerTest, EqualsTorchWithAndWithoutClipping) {
  for (const double clip : {0.0, 5.0}) {  // the norm of a random gradient is about 32
    std::mt19937 random(6);
    OptimizerOptions options = GetParam();
    options.clip_norm = clip;
    const at::Tensor values = to_tensor(random_values(random));
    at::Tensor expected = values.clone().requires_grad_(true);
    const auto optimizer = make_optimizer(options, values);
    const auto torch = torch_optimizer(options, expected);
    for (int s = 0; s < kSteps; ++s) {
      const at::Tensor gradient = to_tensor(random_values(random));
      expected.mutable_grad() = gradient.clone();
      if (clip > 0) torch::nn::utils::clip_grad_norm_(expected, clip);
      torch->step();
      optimizer->step(values, gradient);
    }
    EXPECT_LT(largest_difference(values, expected.detach()), 1e-6) << "clip " << clip;
  }
}

/// The rates of some updates: those of SGD with a gradient of -1.
std::vector<double> rates(const ScheduleOptions& schedule, int steps) {
  const at::Tensor values = to_tensor(std::vector<double>(kCount));
  const auto optimizer =
      make_optimizer({.kind = OptimizerKind::sgd, .learning_rate = 0.5, .schedule = schedule}, values);
  std::vector<double> rates;
  for (int s = 0; s < steps; ++s) {
    values.zero_();
    optimizer->step(values, to_tensor(std::vector<double>(kCount, -1.0)));
    rates.push_back(values[0].item<double>());
  }
  return rates;
}

TEST(Schedules, FollowTheirFormulas) {
  using testing::DoubleNear;
  using testing::ElementsAre;
  constexpr double kTolerance = 1e-7;
  const auto near = [](double rate) { return DoubleNear(rate, kTolerance); };
  EXPECT_THAT(rates({.warmup_steps = 2}, 4), ElementsAre(near(0.25), near(0.5), near(0.5), near(0.5)));
  EXPECT_THAT(rates({.kind = ScheduleKind::step, .warmup_steps = 1, .step_size = 2, .gamma = 0.5}, 6),
              ElementsAre(near(0.5), near(0.5), near(0.5), near(0.25), near(0.25), near(0.125)));
  EXPECT_THAT(rates({.kind = ScheduleKind::cosine, .total_steps = 4}, 6),
              ElementsAre(near(0.5), near(0.25 * (1 + std::sqrt(0.5))), near(0.25),
                          near(0.25 * (1 - std::sqrt(0.5))), near(0), near(0)));
  EXPECT_THAT(rates({.kind = ScheduleKind::cosine, .warmup_steps = 2, .total_steps = 4}, 4),
              ElementsAre(near(0.25), near(0.5), near(0.5), near(0.25)));
}

TEST(Optimizers, LeaveOutWhatIsNotFiniteIfAsked) {
  std::mt19937 random(7);
  const at::Tensor start = to_tensor(random_values(random));
  for (const bool in_guard : {false, true}) {
    const at::Tensor values = start.clone(), other = start.clone(), guard = at::zeros({1});
    const auto optimizer = make_optimizer({.skip_not_finite = true}, values, guard);
    const auto undisturbed = make_optimizer({}, other);
    for (int s = 0; s < 6; ++s) {
      const at::Tensor gradient = to_tensor(random_values(random));
      if (s % 3 == 1) {
        at::Tensor bad = gradient.clone();
        if (in_guard)
          guard.fill_(HUGE_VAL);
        else
          bad[17] = std::nan("");
        optimizer->step(values, bad);
        guard.zero_();
        continue;
      }
      optimizer->step(values, gradient);
      undisturbed->step(other, gradient);
    }
    EXPECT_TRUE(values.equal(other)) << "a skipped update leaves no trace";
    EXPECT_EQ(optimizer->counters().steps, 4);
    EXPECT_EQ(optimizer->counters().skipped, 2);
  }
}

TEST(Optimizers, HaveTheSameBitsOnAnyNumberOfThreads) {
  const auto run = [](int threads) {
    const int before = at::get_num_threads();
    at::set_num_threads(threads);
    at::Tensor values = at::linspace(-1, 1, 200003, at::kFloat).sin();
    const auto optimizer = make_optimizer({.clip_norm = 0.5}, values);
    for (int s = 0; s < 3; ++s) optimizer->step(values, values.mul(3).cos());
    at::set_num_threads(before);
    return values;
  };
  EXPECT_TRUE(run(1).equal(run(3)));
}

TEST_P(OptimizerTest, HasTheSameBitsWhereUpdatesAreComputedOnTheHost) {
  OptimizerOptions options = GetParam();
  options.clip_norm = 5;
  options.skip_not_finite = true;
  const auto run = [&options](bool on_host) {
    options.on_host = on_host;
    std::mt19937 random(8);
    const at::Tensor values = to_tensor(random_values(random)), guard = at::zeros({1});
    const auto optimizer = make_optimizer(options, values, guard);
    for (int s = 0; s < kSteps; ++s) {
      guard.fill_(s == 3 ? std::nanf("") : 1.0f);
      optimizer->step(values, to_tensor(random_values(random)));
    }
    EXPECT_EQ(optimizer->counters().steps, kSteps - 1);
    EXPECT_EQ(optimizer->counters().skipped, 1);
    std::vector<at::Tensor> result{values};
    for (const auto& entry : optimizer->state()) result.push_back(entry.tensor);
    return result;
  };
  const auto device = run(false), host = run(true);
  ASSERT_EQ(host.size(), device.size());
  for (std::size_t i = 0; i < host.size(); ++i) EXPECT_TRUE(host[i].equal(device[i])) << "tensor " << i;
}

TEST(Optimizers, KeepNothingOrTwoMoments) {
  const at::Tensor values = to_tensor(std::vector<double>(kCount));
  EXPECT_EQ(make_optimizer({.kind = OptimizerKind::sgd}, values)->state().size(), 1u) << "its counters";
  const auto state = make_optimizer({.kind = OptimizerKind::adam}, values)->state();
  ASSERT_EQ(state.size(), 3u);
  EXPECT_NE(state[1].name, state[2].name);
  EXPECT_EQ(state[1].tensor.numel(), kCount);
}

}  // namespace
}  // namespace strata::nn
