// SPDX-License-Identifier: Apache-2.0
#include "step/learned_rows.hpp"

#include <ATen/ops/allclose.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/embedding.h>

#include <cmath>
#include <map>
#include <random>

namespace strata::train {
namespace {

constexpr Count kLearnedCols = 5;
const std::vector<LearnedType> kLearnedTypes{{"author", {10, 3}}, {"venue", {13, 2}}, {"topic", {20, 4}}};
const std::vector<NodeId> kLearnedIds{10, 11, 12, 13, 14, 20, 21, 22, 23};  // by row

LearnedRows::Options learned_options(RowOptimizer optimizer) {
  return {.types = kLearnedTypes,
          .cols = kLearnedCols,
          .feature_cols = 3,
          .optimizer = optimizer,
          .learning_rate = 0.1,
          .seed = 7};
}

/// A batch of nodes, of which only the first ones are no padding.
struct Batch {
  explicit Batch(std::vector<NodeId> nodes, Count padding = 0) : ids(std::move(nodes)) {
    counts = {0, std::ssize(ids)};
    ids.insert(ids.end(), at(padding), kLearnedIds.front());
    sample.blocks = {{.device = {}, .num_src = std::ssize(ids), .src_original_ids = ids.data()}};
    if (padding > 0) sample.device_counts = counts.data();
  }
  at::Tensor features() const { return at::full({std::ssize(ids), 3}, 2.0f); }

  std::vector<NodeId> ids;
  std::vector<Count> counts;
  sampling::MiniBatch sample;
};

/// torch's own embedding, and an optimizer that is written down row by row.
class PlainRows {
 public:
  PlainRows(const at::Tensor& table, RowOptimizer optimizer)
      : embedding_(torch::nn::EmbeddingOptions(table.size(0), table.size(1))), optimizer_(optimizer) {
    const c10::NoGradGuard no_grad;
    embedding_->weight.copy_(table);
    mean_ = at::zeros_like(table, at::kDouble);
    square_ = at::zeros_like(table, at::kDouble);
  }

  /// Of the sum over the batches of weights * row.
  void update(const std::vector<std::pair<Batch, at::Tensor>>& batches) {
    embedding_->zero_grad();
    std::map<std::int64_t, bool> read;
    for (const auto& [batch, weights] : batches) {
      for (Count i = 0; i < batch.counts[1]; ++i) {
        const auto row = std::ranges::find(kLearnedIds, batch.ids[at(i)]) - kLearnedIds.begin();
        if (row == std::ssize(kLearnedIds)) continue;
        read[row] = true;
        (embedding_(at::tensor({row})) * weights.narrow(0, i, 1)).sum().backward();
      }
    }
    for (const auto& [row, is_read] : read) step(row);
  }
  const at::Tensor& table() const { return embedding_->weight; }

 private:
  void step(std::int64_t row) {
    const c10::NoGradGuard no_grad;
    const at::Tensor gradient = embedding_->weight.grad()[row].to(at::kDouble);
    at::Tensor change;
    if (optimizer_ == RowOptimizer::adagrad) {
      sums_[row] += gradient.square().mean().item<double>();
      change = gradient / (std::sqrt(sums_[row]) + 1e-10);
    } else {
      const double steps = ++steps_[row];
      mean_[row].mul_(0.9).add_(gradient * 0.1);
      square_[row].mul_(0.999).add_(gradient.square() * 0.001);
      change = mean_[row] / (1 - std::pow(0.9, steps)) /
               ((square_[row] / (1 - std::pow(0.999, steps))).sqrt() + 1e-8);
    }
    embedding_->weight[row].sub_(change * 0.1);
  }

  torch::nn::Embedding embedding_;
  RowOptimizer optimizer_;
  at::Tensor mean_, square_;
  std::map<std::int64_t, double> sums_, steps_;
};

/// Gradients of the sum of weights * learned rows.
RowGradients gradients_of(const LearnedRows& rows, const Batch& batch, const at::Tensor& weights) {
  const LearnedRows::Input input = rows.training_input(batch.features(), batch.sample);
  input.input.backward(weights);
  return input.gradients();
}

class LearnedRowsBy : public testing::TestWithParam<RowOptimizer> {};

TEST_P(LearnedRowsBy, AreUpdatedAsAnEmbeddingRowByRow) {
  LearnedRows rows(learned_options(GetParam()));
  PlainRows plain(rows.table(), GetParam());
  std::mt19937 random(3);
  for (int step = 0; step < 12; ++step) {
    std::vector<std::pair<Batch, at::Tensor>> batches;
    RowGradients all;
    for (int b = 0; b < 1 + step % 3; ++b) {
      std::vector<NodeId> ids = kLearnedIds;
      ids.insert(ids.end(), {0, 9, 15, 19, 24, 1000});  // have features
      std::ranges::shuffle(ids, random);
      ids.resize(1 + random() % ids.size());
      Batch batch(ids, step % 2 == 0 ? 0 : 4);
      const at::Tensor weights = at::randn({std::ssize(batch.ids), kLearnedCols});
      const RowGradients of = gradients_of(rows, batch, weights);
      all = b == 0 ? of : RowGradients{at::cat({all.rows, of.rows}), at::cat({all.gradients, of.gradients})};
      batches.emplace_back(Batch(ids), weights);
    }
    rows.update(all, {});
    plain.update(batches);
    ASSERT_LT((rows.table() - plain.table()).abs().max().item<double>(), 2e-5) << "step " << step;
  }
}

TEST_P(LearnedRowsBy, StandBesideFeatures) {
  const LearnedRows rows(learned_options(GetParam()));
  const Batch batch({21, 5, 13});
  const at::Tensor input = rows.input(batch.features(), batch.sample.blocks.front());
  ASSERT_EQ(input.sizes(), (std::vector<std::int64_t>{3, kLearnedCols}));
  at::Tensor wanted = at::zeros({3, kLearnedCols});
  wanted.narrow(1, 0, 3).fill_(2);
  EXPECT_TRUE(input[1].equal(wanted[1]));
  wanted[0] += rows.table()[6];
  wanted[2] += rows.table()[3];
  EXPECT_TRUE(input.equal(wanted));
}

TEST_P(LearnedRowsBy, StayWhereAGradientIsNotFinite) {
  LearnedRows::Options options = learned_options(GetParam());
  options.skip_not_finite = true;
  LearnedRows rows(options);
  const at::Tensor before = rows.table().clone();
  const Batch batch({10, 22});
  at::Tensor weights = at::randn({2, kLearnedCols});
  rows.update(gradients_of(rows, batch, weights), at::tensor({1.0f, std::nanf("")}));
  EXPECT_TRUE(rows.table().equal(before));
  weights[0][0] = std::nanf("");
  rows.update(gradients_of(rows, batch, weights), at::tensor({1.0f}));
  EXPECT_TRUE(rows.table().equal(before));
  for (const nn::NamedTensor& state : rows.state()) {
    if (state.name == "rows" || state.name == "updates") continue;
    EXPECT_EQ(state.tensor.abs().sum().item<double>(), 0) << state.name;
  }
  weights[0][0] = 1;
  rows.update(gradients_of(rows, batch, weights), at::tensor({1.0f}));
  EXPECT_FALSE(rows.table()[0].equal(before[0]));
  EXPECT_TRUE(rows.table()[1].equal(before[1]));
}

INSTANTIATE_TEST_SUITE_P(Optimizers, LearnedRowsBy,
                         testing::Values(RowOptimizer::adam, RowOptimizer::adagrad),
                         [](const auto& info) { return std::string(enum_name(info.param)); });

TEST(LearnedRows, BeginByOriginalIdAlone) {
  const LearnedRows rows(learned_options(RowOptimizer::adam));
  LearnedRows::Options options = learned_options(RowOptimizer::adagrad);
  options.types = {{"topic", {20, 4}}};
  EXPECT_TRUE(LearnedRows(options).table().equal(rows.table().narrow(0, 5, 4)));
  options.seed = 8;
  EXPECT_FALSE(LearnedRows(options).table().equal(rows.table().narrow(0, 5, 4)));
  const auto weights = rows.weights();
  ASSERT_EQ(weights.size(), 3u);
  EXPECT_EQ(weights[1].name, "learned_rows.venue");
  EXPECT_TRUE(weights[1].tensor.equal(rows.table().narrow(0, 3, 2)));
}

TEST(LearnedRows, HaveAVarianceOfOneByColumns) {
  const LearnedRows rows({.types = {{"node", {0, 4000}}}, .cols = 16});
  EXPECT_NEAR(rows.table().square().mean().item<double>(), 1.0 / 16, 1e-3);
  EXPECT_NEAR(rows.table().mean().item<double>(), 0, 2e-3);
}

TEST(LearnedRows, FollowTheScheduleOfTheLearningRate) {
  LearnedRows::Options options = learned_options(RowOptimizer::adagrad);
  options.schedule = {.warmup_steps = 2};
  LearnedRows rows(options);
  const Batch batch({10});
  const at::Tensor before = rows.table()[0].clone();
  rows.update(gradients_of(rows, batch, at::full({1, kLearnedCols}, 3.0f)), {});
  EXPECT_TRUE(at::allclose(rows.table()[0], before - 0.05f));
}

}  // namespace
}  // namespace strata::train
