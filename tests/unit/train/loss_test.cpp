// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/blocks.hpp"
#include "support/expect_error.hpp"
#include "task/class_loss.hpp"
#include "task/class_weights.hpp"

namespace strata::train {
namespace {

constexpr Count kSeeds = 40, kLossClasses = 5;

at::Tensor some_labels() {
  const at::Tensor labels = at::arange(kSeeds, at::kLong).mul(7).remainder(kLossClasses);
  labels[3] = -100;
  labels[17] = -1;
  return labels.to(at::kInt).unsqueeze(1);
}

/// A seed has each class by a pattern of its own; one has none, and two have no label.
at::Tensor some_sets(Count classes) {
  const Count words = label_set_words(classes);
  const at::Tensor sets = at::zeros({kSeeds, words}, at::kInt);
  for (Count i = 0; i < kSeeds; ++i) {
    std::int32_t* of_seed = sets.mutable_data_ptr<std::int32_t>() + i * words;
    for (Count c = 0; c < classes; ++c) {
      if (i != 9 && (i * 5 + c * c * 3 + c / 7) % 4 == 0) add_class(of_seed, c);
    }
    if (i == 3 || i == 17) std::ranges::copy(unlabelled_set(classes), of_seed);
  }
  return sets;
}

/// The binary cross entropies of all classes of labels that are sets, in f64.
double naive_of_sets(const ClassLossOptions& options, const at::Tensor& logits, const at::Tensor& sets,
                     double* correct) {
  const Count classes = logits.size(1);
  double sum = 0;
  for (Count i = 0; i < kSeeds; ++i) {
    const std::int32_t* of_seed = sets.const_data_ptr<std::int32_t>() + i * sets.size(1);
    if (is_unlabelled(of_seed, classes)) continue;
    for (Count c = 0; c < classes; ++c) {
      const double x = logits[i][c].item<double>(), s = options.label_smoothing;
      const double target = (has_class(of_seed, c) ? 1 - s : 0) + s / 2;
      const double weight = options.class_weights.empty() ? 1 : options.class_weights[at(c)];
      const double entropy = target * std::log1p(std::exp(-x)) + (1 - target) * std::log1p(std::exp(x));
      const double focus =
          options.kind == LossKind::focal ? std::pow(1 - std::exp(-entropy), options.kind.value) : 1;
      sum += weight * focus * entropy / static_cast<double>(classes);
      *correct += ((x > 0) == has_class(of_seed, c)) / static_cast<double>(classes);
    }
  }
  return sum;
}

/// Seed by seed and class by class in f64, as the header writes it.
double naive(const ClassLossOptions& options, const at::Tensor& logits, const at::Tensor& labels) {
  const auto weight = [&](Count c) {
    return options.class_weights.empty() ? 1.0 : options.class_weights[at(c)];
  };
  double sum = 0;
  for (Count i = 0; i < kSeeds; ++i) {
    const auto label = labels[i][0].item<std::int32_t>();
    if (label < 0) continue;
    const double s = options.label_smoothing;
    double total = 0;
    for (Count c = 0; c < kLossClasses; ++c) total += std::exp(logits[i][c].item<double>());
    for (Count c = 0; c < kLossClasses; ++c) {
      const double x = logits[i][c].item<double>();
      const double target =
          (c == label ? 1 - s : 0) + (options.kind == LossKind::bce ? s / 2 : s / kLossClasses);
      const double log_p = x - std::log(total), yes = -std::log1p(std::exp(-x)),
                   no = -std::log1p(std::exp(x));
      if (options.kind == LossKind::focal)
        sum -= c == label ? weight(c) * std::pow(1 - std::exp(log_p), options.kind.value) * log_p : 0;
      else if (options.kind == LossKind::bce)
        sum -= weight(c) * (target * yes + (1 - target) * no) / kLossClasses;
      else
        sum -= weight(c) * target * log_p;
    }
  }
  return sum;
}

class LossTest : public testing::TestWithParam<ClassLossOptions> {};

TEST_P(LossTest, EqualsTheNaiveSum) {
  const ClassLoss loss(GetParam(), kLossClasses, at::kCPU);
  const at::Tensor logits = test::random_rows(kSeeds, kLossClasses, 3).mul_(3);
  const at::Tensor labels = some_labels(), total = at::full({}, 80.0);
  const Loss::Result result = loss(logits, labels, total);
  const double expected = naive(GetParam(), logits, labels);
  EXPECT_NEAR(result.outcome[0].item<double>(), expected, 1e-5 * expected);
  EXPECT_EQ(result.outcome[2].item<float>(), kSeeds - 2);

  const at::Tensor& gradient = result.gradient;
  EXPECT_TRUE(gradient[3].eq(0).all().item<bool>()) << "label -100";
  EXPECT_TRUE(gradient[17].eq(0).all().item<bool>()) << "label -1";
  constexpr double kStep = 1e-2;
  for (const auto& [i, c] : {std::pair{0, 0}, {5, 2}, {39, 4}}) {
    const at::Tensor up = logits.clone(), down = logits.clone();
    up[i][c] += kStep;
    down[i][c] -= kStep;
    const double slope = (naive(GetParam(), up, labels) - naive(GetParam(), down, labels)) / (2 * kStep) / 80;
    EXPECT_NEAR(gradient[i][c].item<double>(), slope, 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, LossTest,
    testing::Values(ClassLossOptions{}, ClassLossOptions{.label_smoothing = 0.1},
                    ClassLossOptions{.class_weights = {1, 2, 0.5, 0, 3}},
                    ClassLossOptions{.label_smoothing = 0.3, .class_weights = {1, 2, 0.5, 0, 3}},
                    ClassLossOptions{.kind = LossKind::bce},
                    ClassLossOptions{.kind = LossKind::bce, .label_smoothing = 0.2},
                    ClassLossOptions{.kind = LossKind::bce, .class_weights = {1, 2, 0.5, 0, 3}},
                    ClassLossOptions{.kind = LossKind::focal},
                    ClassLossOptions{.kind = {LossKind::focal, 0.5}, .class_weights = {1, 2, 0.5, 0, 3}}));

TEST(Loss, OfSetsOfClassesEqualsTheNaiveSum) {
  for (const Count classes : {1, 5, 31, 32, 40}) {
    for (ClassLossOptions options : {ClassLossOptions{.kind = LossKind::bce},
                                     ClassLossOptions{.kind = LossKind::bce, .label_smoothing = 0.2},
                                     ClassLossOptions{.kind = LossKind::focal}}) {
      options.multi_label = true;
      for (Count c = 0; c < classes; ++c) options.class_weights.push_back(static_cast<double>((c + 1) % 3));
      const ClassLoss loss(options, classes, at::kCPU);
      const at::Tensor logits = test::random_rows(kSeeds, classes, 3).mul_(3), sets = some_sets(classes);
      const Loss::Result result = loss(logits, sets, at::full({}, 80.0));
      double correct = 0, ignored = 0;
      const double expected = naive_of_sets(options, logits, sets, &correct);
      EXPECT_NEAR(result.outcome[0].item<double>(), expected, 1e-5 * expected + 1e-6);
      EXPECT_NEAR(result.outcome[1].item<double>(), correct, 1e-4);
      EXPECT_EQ(result.outcome[2].item<float>(), kSeeds - 2);
      EXPECT_TRUE(result.gradient[17].eq(0).all().item<bool>());
      constexpr double kStep = 1e-2;
      for (const Count i : {0, 9, 39}) {
        const at::Tensor up = logits.clone(), down = logits.clone();
        up[i][classes - 1] += kStep;
        down[i][classes - 1] -= kStep;
        const double slope =
            (naive_of_sets(options, up, sets, &ignored) - naive_of_sets(options, down, sets, &ignored)) /
            (2 * kStep) / 80;
        EXPECT_NEAR(result.gradient[i][classes - 1].item<double>(), slope, 1e-5) << classes;
      }
    }
  }
}

TEST(Loss, RefusesCrossEntropyOfSeveralLabels) {
  test::expect_error<InputError>([] { ClassLoss({.multi_label = true}, 5, at::kCPU); },
                                 {"one class per node", "--loss bce"});
}

TEST(Loss, CountsWhatIsRight) {
  const at::Tensor logits = at::tensor({2.f, 1.f, 0.f, 5.f, 9.f, 0.f, 3.f, 4.f}).view({4, 2});
  const at::Tensor labels = at::tensor({0, 0, 0, -100}, at::kInt).unsqueeze(1);
  const Loss::Result result = ClassLoss({}, 2, at::kCPU)(logits, labels, at::full({}, 4.0));
  EXPECT_EQ(result.outcome[1].item<float>(), 2);
  EXPECT_EQ(result.outcome[2].item<float>(), 3);
}

TEST(Loss, OfNoLabelsIsNothing) {
  for (const LossKind kind : {LossKind::cross_entropy, LossKind::bce}) {
    const Loss::Result result = ClassLoss({.kind = kind, .label_smoothing = 0.1}, 3, at::kCPU)(
        test::random_rows(6, 3, 1), at::full({6, 1}, -100, at::kInt), at::full({}, 9.0));
    EXPECT_TRUE(result.outcome.eq(0).all().item<bool>());
    EXPECT_TRUE(result.gradient.eq(0).all().item<bool>());
  }
}

TEST(Loss, RefusesWhatItCannotBe) {
  const auto make = [](const ClassLossOptions& options) {
    return [options] { ClassLoss(options, 3, at::kCPU); };
  };
  test::expect_error(make({.label_smoothing = 1}), {"--label-smoothing", "1"});
  test::expect_error(make({.class_weights = {1, 2}}), {"2 numbers", "3 classes"});
  test::expect_error(make({.class_weights = {1, 2, -1}}), {"--class-weights"});
  test::expect_error(make({.class_weights = {1, 2, std::nan("")}}), {"--class-weights"});
  test::expect_error(make({.class_weights = {0, 0, 0}}), {"--class-weights", "0 for every class"});
}

TEST(ClassWeights, AreRead) {
  EXPECT_THAT(parse_class_weights("1,2.5,0"), testing::ElementsAre(1, 2.5, 0));
  for (const char* text : {"", "1,", "1,x", "a", "1;2"})
    test::expect_error([&] { parse_class_weights(text); }, {"--class-weights", "balanced"});
}

TEST(ClassWeights, BalanceTheClasses) {
  EXPECT_THAT(balanced_weights({10, 30, 0, 40}), testing::ElementsAre(2, 80.0 / 120, 0, 0.5));
}

}  // namespace
}  // namespace strata::train
