#include "checkpoint.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <cmath>
#include <limits>
#include <random>

#include "model_state.hpp"
#include "strata/nn/weights.hpp"
#include "strata/util/files.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace strata::train {
namespace {

at::Tensor random_tensor(at::IntArrayRef shape, std::mt19937& random) {
  at::Tensor tensor = at::empty(shape, at::kFloat);
  std::normal_distribution<float> normal;
  for (std::int64_t i = 0; i < tensor.numel(); ++i) tensor.mutable_data_ptr<float>()[i] = normal(random);
  return tensor;
}

class TwoTensors : public torch::nn::Module {
 public:
  TwoTensors(std::int64_t width, std::mt19937& random) {
    register_parameter("weight", random_tensor({width, 5}, random));
    register_parameter("bias", random_tensor({width}, random));
    register_buffer("mean", random_tensor({width}, random));
  }
};

/// All that a checkpoint holds, filled at random.
struct TrainingRun {
  explicit TrainingRun(std::uint32_t seed, std::int64_t width = 3, OptimizerKind kind = OptimizerKind::adam)
      : random(seed),
        model(width, random),
        parameters(model, at::kCPU),
        optimizer(make_optimizer({.kind = kind}, parameters.values())) {}

  void train(int steps, std::uint32_t seed) {
    std::mt19937 gradients(seed);
    for (int s = 0; s < steps; ++s)
      optimizer->step(parameters.values(), random_tensor(parameters.values().sizes(), gradients));
  }
  CheckpointParts parts() { return {&parameters, optimizer.get(), &progress, signature, &model}; }

  std::mt19937 random;
  TwoTensors model;
  FlatParameters parameters;
  std::unique_ptr<Optimizer> optimizer;
  ProgressState progress;
  std::string signature = R"({"hidden":3,"model":"sage"})";
};

ProgressState some_progress(const TrainingRun& run) {
  return {.epoch = 4,
          .step_in_epoch = 12,
          .loss_sum = 0.1 + 0.2,
          .correct = 33,
          .seeds = 77,
          .best_epoch = 3,
          .best_valid = {.nodes = 9,
                         .loss = 1.0 / 3,
                         .accuracy = 0.5,
                         .macro_f1 = 0.25,
                         .roc_auc = std::numeric_limits<double>::quiet_NaN()},
          .best_test = {.nodes = 8, .loss = 2, .accuracy = 0.75, .macro_f1 = 0.7, .roc_auc = 0.9},
          .evaluations_without_gain = 1,
          .best_parameters = run.parameters.values().detach().clone(),
          .best_buffers = copies_of(buffers_of(run.model))};
}

class Checkpoint : public testing::Test {
 protected:
  /// Changes one metadata field of a good checkpoint.
  void write_changed(const std::string& field, const std::string& value) {
    TrainingRun run(1);
    save_checkpoint(path_, run.parts());
    nn::TensorFile file = nn::read_tensors(path_);
    file.metadata[field] = value;
    nn::write_tensors(path_, file);
  }
  void expect_refused(TrainingRun& run, std::vector<std::string> parts) {
    parts.push_back(path_.string());
    test::expect_error([&] { load_checkpoint(path_, run.parts()); }, parts);
  }

  test::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "checkpoint.safetensors";
};

TEST_F(Checkpoint, RestoresARunBitForBit) {
  for (const auto kind : {OptimizerKind::adam, OptimizerKind::adamw, OptimizerKind::sgd}) {
    TrainingRun first(1, 3, kind), second(2, 3, kind);
    first.train(5, 7);
    first.progress = some_progress(first);
    first.train(2, 8);  // the parameters differ from the best ones
    first.model.buffers()[0].add_(1);
    save_checkpoint(path_, first.parts());
    load_checkpoint(path_, second.parts());

    EXPECT_TRUE(at::equal(first.parameters.values(), second.parameters.values())) << enum_name(kind);
    EXPECT_EQ(second.optimizer->counters().steps, 7);
    const ProgressState &a = first.progress, &b = second.progress;
    EXPECT_EQ(a.epoch, b.epoch);
    EXPECT_EQ(a.step_in_epoch, b.step_in_epoch);
    EXPECT_EQ(a.loss_sum, b.loss_sum);
    EXPECT_EQ(a.correct, b.correct);
    EXPECT_EQ(a.seeds, b.seeds);
    EXPECT_EQ(a.best_epoch, b.best_epoch);
    EXPECT_EQ(a.best_valid.nodes, b.best_valid.nodes);
    EXPECT_EQ(a.best_valid.loss, b.best_valid.loss);
    EXPECT_TRUE(std::isnan(b.best_valid.roc_auc));
    EXPECT_EQ(a.best_test.macro_f1, b.best_test.macro_f1);
    EXPECT_EQ(a.best_test.roc_auc, b.best_test.roc_auc);
    EXPECT_EQ(a.evaluations_without_gain, b.evaluations_without_gain);
    EXPECT_TRUE(at::equal(a.best_parameters, b.best_parameters));
    ASSERT_EQ(b.best_buffers.size(), 1u);
    EXPECT_TRUE(at::equal(a.best_buffers[0].tensor, b.best_buffers[0].tensor));
    EXPECT_TRUE(at::equal(first.model.buffers()[0], second.model.buffers()[0]));
    EXPECT_FALSE(at::equal(second.model.buffers()[0], b.best_buffers[0].tensor));

    first.train(3, 9);  // the moments were restored too
    second.train(3, 9);
    EXPECT_TRUE(at::equal(first.parameters.values(), second.parameters.values())) << enum_name(kind);
  }
}

TEST_F(Checkpoint, TheModelSeesWhatWasRestored) {
  TrainingRun first(1), second(2);
  save_checkpoint(path_, first.parts());
  load_checkpoint(path_, second.parts());
  EXPECT_TRUE(at::equal(first.model.parameters()[0], second.model.parameters()[0]));
  EXPECT_FALSE(second.progress.best_parameters.defined());
}

TEST_F(Checkpoint, RefusesAnotherRun) {
  TrainingRun saved(1);
  save_checkpoint(path_, saved.parts());
  TrainingRun other(1);
  other.signature = R"({"hidden":4,"model":"sage"})";
  expect_refused(other, {"hidden = 3, this run 4", "--resume"});
  other.signature = R"({"hidden":3,"model":"sage","ranks":2})";
  expect_refused(other, {"ranks = nothing, this run 2"});
  TrainingRun wider(1, 4);
  expect_refused(wider, {"\"parameters\" has 18 elements, this run 24", "--resume"});
  TrainingRun sgd(1, 3, OptimizerKind::sgd), adam(1);
  save_checkpoint(path_, sgd.parts());
  expect_refused(adam, {"optimizer.first_moment"});
}

TEST_F(Checkpoint, RefusesAnotherGraph) {
  graph::Manifest manifest;
  manifest.name = "first";
  manifest.book = graph::PartitionBook({0, 4, 9});
  manifest.num_edges = 20;
  manifest.num_train = 5;
  TrainingRun run(1);
  const std::string options = run.signature;
  run.signature = with_graph(options, manifest);
  save_checkpoint(path_, run.parts());
  const auto refuses = [&](const graph::Manifest& other, const std::string& what) {
    run.signature = with_graph(options, other);
    expect_refused(run, {what, "graph"});
  };
  graph::Manifest other = manifest;
  other.num_edges = 21;
  refuses(other, "graph edges = 20, this run 21");
  other = manifest;
  other.num_train = 6;
  refuses(other, "training nodes = 5, this run 6");
  other = manifest;
  other.book = graph::PartitionBook({0, 10});
  refuses(other, "graph nodes = 9, this run 10");

  manifest.book = graph::PartitionBook({0, 9});  // the same graph in other parts
  run.signature = with_graph(options, manifest);
  load_checkpoint(path_, run.parts());
}

TEST_F(Checkpoint, RefusesFilesThatAreNone) {
  TrainingRun run(1);
  expect_refused(run, {"there is no checkpoint", "--output"});
  write_changed("format", "strata-model");
  expect_refused(run, {"format strata-model", "version of Strata"});
  write_changed("version", "99");
  expect_refused(run, {"version 99"});
  write_changed("progress", "{}");
  expect_refused(run, {"damaged checkpoint", "--resume"});
  write_changed("signature", "{");
  expect_refused(run, {"damaged checkpoint"});
  nn::write_tensors(path_, {.tensors = nn::weights_of(run.model), .metadata = {{"format", "pt"}}});
  expect_refused(run, {});
  nn::write_tensors(path_, {.tensors = nn::weights_of(run.model), .metadata = {}});
  expect_refused(run, {"not a checkpoint", "\"format\""});
}

TEST_F(Checkpoint, RefusesTruncatedFiles) {
  TrainingRun run(1);
  save_checkpoint(path_, run.parts());
  const std::string whole = read_file(path_);
  for (const std::size_t size : {std::size_t{0}, std::size_t{5}, whole.size() / 2, whole.size() - 1}) {
    write_file_atomically(path_, whole.substr(0, size));
    expect_refused(run, {});
  }
}

}  // namespace
}  // namespace strata::train
