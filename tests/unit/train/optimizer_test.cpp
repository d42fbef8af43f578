#include "strata/train/optimizer.hpp"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "support/expect_error.hpp"

namespace strata::train {
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
    tensor.mutable_data_ptr<float>()[i] = static_cast<float>(values[static_cast<std::size_t>(i)]);
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
      if (options_.kind == "adamw") {
        values[i] -= options_.learning_rate * options_.weight_decay * values[i];
      } else {
        gradient += options_.weight_decay * values[i];
      }
      values[i] -= options_.learning_rate * (options_.kind == "sgd" ? gradient : adam_direction(i, gradient));
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
  EXPECT_EQ(optimizer->steps, kSteps);
  double worst = 0;
  for (std::int64_t i = 0; i < kCount; ++i) {
    const double difference =
        std::abs(values.const_data_ptr<float>()[i] - expected[static_cast<std::size_t>(i)]);
    ASSERT_FALSE(std::isnan(difference));
    worst = std::max(worst, difference);
  }
  EXPECT_LT(worst, 1e-5);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, OptimizerTest,
    testing::Values(OptimizerOptions{"sgd", 0.01, 0}, OptimizerOptions{"sgd", 0.01, 0.1},
                    OptimizerOptions{"adam", 0.01, 0}, OptimizerOptions{"adam", 0.01, 0.1},
                    OptimizerOptions{"adamw", 0.01, 0}, OptimizerOptions{"adamw", 0.01, 0.1}),
    [](const auto& info) { return info.param.kind + (info.param.weight_decay > 0 ? "WithDecay" : ""); });

TEST(Optimizers, KeepNothingOrTwoMoments) {
  const at::Tensor values = to_tensor(std::vector<double>(kCount));
  EXPECT_TRUE(make_optimizer({.kind = "sgd"}, values)->state().empty());
  const auto state = make_optimizer({.kind = "adam"}, values)->state();
  ASSERT_EQ(state.size(), 2u);
  EXPECT_NE(state[0].name, state[1].name);
  EXPECT_EQ(state[0].tensor.numel(), kCount);
}

TEST(Optimizers, OfUnknownKindsAreRefused) {
  const at::Tensor values = to_tensor(std::vector<double>(kCount));
  test::expect_error([&] { make_optimizer({.kind = "lion"}, values); }, {"\"lion\"", "adam, adamw or sgd"});
}

}  // namespace
}  // namespace strata::train
