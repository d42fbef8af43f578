// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "checkpoint/checkpoint_files.hpp"
#include "checkpoint/model_state.hpp"
#include "strata/nn/weights.hpp"
#include "strata/train/config.hpp"
#include "strata/util/files.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"
#include "support/training_run.hpp"

namespace strata::train {
namespace {

Scores some_scores(Count nodes, double roc_auc) {
  return {.nodes = nodes,
          .loss = 1.0 / 3,
          .values = {{.name = "accuracy", .value = 0.5}, {.name = "roc_auc", .value = roc_auc}}};
}

/// Of a run that has not begun, whose task has these scores.
ProgressState no_progress() { return {.best_valid = some_scores(0, 0), .best_test = some_scores(0, 0)}; }

ProgressState some_progress(const test::TrainingRun& run) {
  return {.epoch = 4,
          .step_in_epoch = 12,
          .loss_sum = 0.1 + 0.2,
          .hits = 33,
          .seeds = 77,
          .evaluation_due = true,
          .evaluation_kind = EvaluationKind::sampled,
          .best_epoch = 3,
          .best_valid = some_scores(9, std::numeric_limits<double>::quiet_NaN()),
          .best_test = some_scores(8, 0.9),
          .evaluations_without_gain = 1,
          .best_parameters = run.parameters.values().detach().clone(),
          .best_buffers = copies_of(buffers_of(run.model))};
}

void save_checkpoint(const std::filesystem::path& path, const CheckpointParts& parts) {
  write_file_atomically(path, format_checkpoint(parts));
}

void load_checkpoint(const std::filesystem::path& path, const CheckpointParts& parts) {
  restore_checkpoint(read_file(path), path, parts);
}

class Checkpoint : public testing::Test {
 protected:
  /// Changes one metadata field of a good checkpoint.
  void write_changed(const std::string& field, const std::string& value) {
    test::TrainingRun run(1);
    save_checkpoint(path_, run.parts());
    nn::TensorFile file = nn::read_tensors(path_);
    file.metadata[field] = value;
    nn::write_tensors(path_, file);
  }
  void expect_refused(test::TrainingRun& run, std::vector<std::string> parts) {
    parts.push_back(path_.string());
    test::expect_error([&] { load_checkpoint(path_, run.parts()); }, parts);
  }

  test::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "checkpoint.safetensors";
};

TEST_F(Checkpoint, RestoresARunBitForBit) {
  for (const auto kind : {nn::OptimizerKind::adam, nn::OptimizerKind::adamw, nn::OptimizerKind::sgd}) {
    test::TrainingRun first(1, 3, kind), second(2, 3, kind);
    first.train(5, 7);
    first.progress = some_progress(first);
    second.progress = no_progress();
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
    EXPECT_EQ(a.hits, b.hits);
    EXPECT_EQ(a.seeds, b.seeds);
    EXPECT_EQ(a.evaluation_due, b.evaluation_due);
    EXPECT_EQ(a.evaluation_kind, b.evaluation_kind);
    EXPECT_EQ(a.best_epoch, b.best_epoch);
    EXPECT_EQ(a.best_valid.nodes, b.best_valid.nodes);
    EXPECT_EQ(a.best_valid.loss, b.best_valid.loss);
    EXPECT_TRUE(std::isnan(b.best_valid.of("roc_auc")));
    EXPECT_EQ(a.best_test.values, b.best_test.values);
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
  test::TrainingRun first(1), second(2);
  save_checkpoint(path_, first.parts());
  load_checkpoint(path_, second.parts());
  EXPECT_TRUE(at::equal(first.model.parameters()[0], second.model.parameters()[0]));
  EXPECT_FALSE(second.progress.best_parameters.defined());
}

TEST_F(Checkpoint, RefusesAnotherRun) {
  test::TrainingRun saved(1);
  save_checkpoint(path_, saved.parts());
  test::TrainingRun other(1);
  other.signature = R"({"hidden":4,"model":"sage"})";
  expect_refused(other, {"--hidden 4 instead of 3", "--resume"});
  other.signature = R"({"hidden":3,"model":"sage","heads":2})";
  expect_refused(other, {"--heads 2 instead of nothing"});
  other.signature = R"({"hidden":4,"lr":0.5,"model":"gat"})";
  expect_refused(other,
                 {"--hidden 4 instead of 3, --lr 0.5 instead of nothing, --model gat instead of sage"});
  test::TrainingRun wider(1, 4);
  expect_refused(wider, {"\"parameters\" has 18 elements, this run 24", "--resume"});
  test::TrainingRun sgd(1, 3, nn::OptimizerKind::sgd), adam(1);
  save_checkpoint(path_, sgd.parts());
  expect_refused(adam, {"optimizer.first_moment"});
}

TEST_F(Checkpoint, RefusesAnotherBatchWithTheOptionThatHelps) {
  test::TrainingRun run(1);
  TrainConfig four_ranks, given;
  four_ranks.batch_size = 100;
  given.global_batch_size = 400;
  run.signature = resume_signature(four_ranks, 4);
  save_checkpoint(path_, run.parts());
  run.signature = resume_signature(given, 3);
  load_checkpoint(path_, run.parts());
  run.signature = resume_signature(four_ranks, 2);
  expect_refused(run, {"--global-batch-size 200 instead of 400", "Give --global-batch-size 400"});
}

TEST_F(Checkpoint, RefusesAnotherEvaluation) {
  test::TrainingRun run(1);
  TrainConfig sampled;
  sampled.eval_fanouts = {4, 4};
  run.signature = resume_signature(sampled, 1);
  save_checkpoint(path_, run.parts());
  run.signature = resume_signature(TrainConfig(), 1);
  expect_refused(run, {"--eval-fanouts [] instead of [4,4]"});
}

TEST_F(Checkpoint, RefusesAnotherGraph) {
  graph::Manifest manifest;
  manifest.book = graph::PartitionBook({0, 4, 9});
  manifest.num_edges = 20;
  manifest.num_train = 5;
  test::TrainingRun run(1);
  const std::string options = run.signature;
  run.signature = with_graph(options, manifest, "0123456789abcdef");
  save_checkpoint(path_, run.parts());
  run.signature = with_graph(options, manifest, "0123456789abcdee");  // of the same size
  expect_refused(run, {"--graph ", "0123456789abcdef", "0123456789abcdee", "the same graph"});

  manifest.book = graph::PartitionBook({0, 9});  // the same graph in other parts
  run.signature = with_graph(options, manifest, "0123456789abcdef");
  load_checkpoint(path_, run.parts());
}

TEST_F(Checkpoint, RefusesFilesThatAreNone) {
  test::TrainingRun run(1);
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
  test::TrainingRun run(1);
  save_checkpoint(path_, run.parts());
  const std::string whole = read_file(path_);
  for (const std::size_t size : {std::size_t{0}, std::size_t{5}, whole.size() / 2, whole.size() - 1}) {
    write_file_atomically(path_, whole.substr(0, size));
    expect_refused(run, {});
  }
}

/// A run of several checkpoints in a folder.
class CheckpointsOfARun : public testing::Test {
 protected:
  void save(int step) {
    run_.progress.step_in_epoch = step;
    files_.save(run_.parts());
  }
  /// The step of the checkpoint that a resumed run starts from.
  Count found() const {
    test::TrainingRun other(2);
    const CheckpointFiles::Found found = CheckpointFiles(folder_.path()).find();
    restore_checkpoint(found.contents, found.path, other.parts());
    return other.progress.step_in_epoch;
  }
  void flip(const std::filesystem::path& path, std::size_t bit) const {
    std::string contents = read_file(path);
    contents[bit / 8] = static_cast<char>(contents[bit / 8] ^ (1 << bit % 8));
    write_file_atomically(path, contents);
  }

  test::TemporaryFolder folder_;
  test::TrainingRun run_{1};
  CheckpointFiles files_{folder_.path()};
};

TEST_F(CheckpointsOfARun, AreTheNewestAndTheOneBefore) {
  test::expect_error([&] { found(); }, {"there is no checkpoint", "--output"});
  save(1);
  EXPECT_FALSE(std::filesystem::exists(files_.previous()));
  EXPECT_EQ(found(), 1);
  save(2);
  save(3);
  EXPECT_EQ(found(), 3);
  std::filesystem::remove(files_.newest());
  EXPECT_EQ(found(), 2);
}

TEST_F(CheckpointsOfARun, AreNeverGoneOnFromWhenDamaged) {
  save(1);
  save(2);
  const std::size_t bits = read_file(files_.newest()).size() * 8;
  for (std::size_t bit = 0; bit < bits; bit += 37) {
    flip(files_.newest(), bit);
    EXPECT_EQ(found(), 1) << "bit " << bit;
    flip(files_.newest(), bit);
  }
  EXPECT_EQ(found(), 2);
  std::filesystem::resize_file(files_.newest(), 100);
  EXPECT_EQ(found(), 1);
  flip(files_.previous(), bits / 2);
  test::expect_error([&] { found(); }, {"truncated", "no better", "checkpoint.previous.safetensors"});
  std::filesystem::remove(files_.previous());
  test::expect_error([&] { found(); }, {"truncated", "checkpoint.safetensors"});
}

TEST_F(CheckpointsOfARun, ReplaceThoseOfAnotherRun) {
  save(1);
  save(2);
  test::TrainingRun other(3);
  other.progress.step_in_epoch = 7;
  CheckpointFiles(folder_.path()).save(other.parts());
  EXPECT_EQ(found(), 7);
  EXPECT_FALSE(std::filesystem::exists(files_.previous()));
}

}  // namespace
}  // namespace strata::train
