// SPDX-License-Identifier: Apache-2.0
#include "strata/train/config.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "support/expect_error.hpp"

namespace strata::train {
namespace {

TrainConfig good_config() {
  TrainConfig config;
  config.graph = "parts";
  return config;
}

using Change = std::function<void(TrainConfig&)>;

void expect_refused(const Change& change, const std::vector<std::string>& parts) {
  TrainConfig config = good_config();
  change(config);
  test::expect_error([&] { validate(config); }, parts);
}

TEST(Validate, AcceptsDefaultsAndLimits) {
  EXPECT_NO_THROW(validate(good_config()));
  for (const Change& change : std::initializer_list<Change>{
           [](TrainConfig& c) {
             c.fanouts = {-1, 0, 5};
           },
           [](TrainConfig& c) { c.dropout = 0; },
           [](TrainConfig& c) {
             c.sampler = SamplerKind::weighted;
             c.replace = true;
           },
           [](TrainConfig& c) { c.sampler = SamplerKind::labor_dependent; },
           [](TrainConfig& c) {
             c.eval_fanouts = {5, 5, 5};
           },
           [](TrainConfig& c) { c.eval_every = 0; }, [](TrainConfig& c) { c.patience = 3; }}) {
    TrainConfig config = good_config();
    change(config);
    EXPECT_NO_THROW(validate(config));
  }
}

TEST(Validate, RefusesWhatCannotBe) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  expect_refused([](auto& c) { c.graph = {}; }, {"--graph is missing", "partition directory"});
  expect_refused([](auto& c) { c.graph = "ogb:products"; },
                 {"ogb:products is a dataset", "strata-partition build --input"});
  expect_refused([](auto& c) { c.fanouts.clear(); }, {"--fanouts is empty", "15,10,5"});
  expect_refused([](auto& c) { c.fanouts = {5, -2}; }, {"--fanouts: -2", "-1 for all"});
  expect_refused([](auto& c) { c.eval_fanouts = {5, -7, 5}; }, {"--eval-fanouts: -7"});
  expect_refused([](auto& c) { c.hidden = 0; }, {"--hidden: 0", "256"});
  expect_refused([](auto& c) { c.batch_size = -4; }, {"--batch-size: -4"});
  expect_refused([](auto& c) { c.global_batch_size = -1; }, {"--global-batch-size: -1"});
  expect_refused([](auto& c) { c.epochs = 0; }, {"--epochs: 0"});
  const Count too_many = Count{1} << 31;
  expect_refused([=](auto& c) { c.batch_size = too_many; }, {"--batch-size", "at most 2147483647"});
  expect_refused([=](auto& c) { c.global_batch_size = too_many; }, {"--global-batch-size", "at most"});
  expect_refused([](auto& c) { c.learning_rate = 0; }, {"--lr: 0"});
  expect_refused([=](auto& c) { c.learning_rate = std::numeric_limits<double>::infinity(); }, {"--lr: inf"});
  expect_refused([=](auto& c) { c.learning_rate = nan; }, {"--lr: nan"});
  expect_refused([](auto& c) { c.weight_decay = -0.5; }, {"--weight-decay: -0.5"});
  expect_refused([](auto& c) { c.weight_decay = std::numeric_limits<double>::infinity(); },
                 {"--weight-decay: inf", "finite"});
  expect_refused([](auto& c) { c.dropout = 1; }, {"--dropout: 1", "below 1"});
  expect_refused([=](auto& c) { c.dropout = nan; }, {"--dropout: nan"});
  expect_refused([](auto& c) { c.input_dropout = -0.1; }, {"--input-dropout: -0.1"});
  expect_refused([](auto& c) { c.attention_dropout = 1; }, {"--attention-dropout: 1"});
  expect_refused([](auto& c) { c.heads = {0}; }, {"--heads: 0"});
  expect_refused([](auto& c) { c.warmup_steps = -1; }, {"--warmup-steps: -1"});
  expect_refused([](auto& c) { c.lr_schedule.step_size = 0; }, {"--lr-schedule: 0 updates"});
  expect_refused([=](auto& c) { c.lr_schedule.gamma = nan; }, {"--lr-schedule: the factor nan"});
  expect_refused([=](auto& c) { c.clip_grad = nan; }, {"--clip-grad: nan"});
  expect_refused([](auto& c) { c.label_smoothing = 1; }, {"--label-smoothing: 1"});
  expect_refused([](auto& c) { c.class_weights = "1,two"; }, {"--class-weights", "two"});
  expect_refused([](auto& c) { c.accumulate = 0; }, {"--accumulate: 0"});
  expect_refused([](auto& c) { c.gpu_memory_bytes = -1; }, {"--gpu-memory: -1"});
  expect_refused([](auto& c) { c.halo_cache_bytes = -2; }, {"--halo-cache: -2"});
  expect_refused([](auto& c) { c.topology.ranks_per_machine = -1; }, {"--ranks-per-machine"});
  for (int TrainConfig::*count :
       {&TrainConfig::eval_every, &TrainConfig::patience, &TrainConfig::checkpoint_every,
        &TrainConfig::log_every, &TrainConfig::watchdog_seconds}) {
    expect_refused([=](auto& c) { c.*count = -1; }, {"no negative numbers", "0 to turn one off"});
  }
}

TEST(Validate, RefusesNeighborsBetweenGpusThatHaveNoBound) {
  const auto expect = [](const auto& set, const char* option) {
    expect_refused(
        [&](auto& c) {
          c.exchange = batches::Transport::nccl;
          set(c);
        },
        {"--exchange nccl contradicts", option});
  };
  expect([](auto& c) { c.sampler = SamplerKind::labor; }, "--sampler labor");
  expect([](auto& c) { c.fanouts = {5, -1, 5}; }, "the fanout -1 of --fanouts");
  expect([](auto& c) { c.sampler_device = comm::TopologyOptions::Compute::cpu; }, "--sampler-device cpu");
}

TEST(Validate, RefusesRecordedStepsThatHaveNoBound) {
  expect_refused(
      [](auto& c) {
        c.cuda_graph = CudaGraphs::on;
        c.fanouts = {5, -1, 5};
      },
      {"--cuda-graph on contradicts the fanout -1 of --fanouts"});
}

TEST(Validate, RefusesWhatContradictsItself) {
  expect_refused([](auto& c) { c.eval_fanouts = {5, 5}; }, {"--eval-fanouts has 2 entries, --fanouts 3"});
  expect_refused(
      [](auto& c) {
        c.sampler = SamplerKind::labor;
        c.replace = true;
      },
      {"--replace contradicts --sampler labor"});
  expect_refused(
      [](auto& c) {
        c.patience = 2;
        c.eval_every = 0;
      },
      {"--patience needs evaluations", "--eval-every 1"});
}

TEST(Validate, RefusesWhatHasNoEffect) {
  expect_refused([](auto& c) { c.heads = {2}; }, {"--heads has no effect without --model gat"});
  expect_refused([](auto& c) { c.attention_dropout = 0.5; }, {"--attention-dropout has no effect"});
  const auto name = [](const char* source) {
    return [=](TrainConfig& c) { c.provenance.given_by["heads"] = source; };
  };
  expect_refused(name("command line"), {"--heads has no effect"});
  TrainConfig read_back = good_config();
  name("runs/first/config.toml:12:1")(read_back);
  EXPECT_NO_THROW(validate(read_back)) << "a record of a run has every option";
  TrainConfig own = good_config();
  own.own_model = "mine";
  own.heads = {2};
  EXPECT_NO_THROW(validate(own)) << "it may use them";
}

TEST(Validate, RefusesWhatOverflows) {
  expect_refused([](auto& c) { c.hidden = Count{1} << 40; },
                 {"--hidden: 1099511627776 is more than 1048576"});
  expect_refused([](auto& c) { c.heads = {1 << 30}; }, {"--heads: 1073741824"});
  expect_refused([](auto& c) { c.heads = {}; }, {"--heads has 0 entries"});
  expect_refused([](auto& c) { c.fanouts = {std::numeric_limits<int>::max()}; },
                 {"--fanouts: 2147483647", "-1 for all"});
  expect_refused([](auto& c) { c.accumulate = std::numeric_limits<Count>::max(); }, {"--accumulate"});
  expect_refused([](auto& c) { c.learning_rate = 1e39; }, {"--lr: 1e+39"});
  expect_refused([](auto& c) { c.weight_decay = 1e39; }, {"--weight-decay: 1e+39"});
}

TEST(Validate, RefusesWhatIsNoneOfAnEnumeration) {
  expect_refused([](auto& c) { c.precision = static_cast<Precision>(7); },
                 {"--precision: 7 is none of its values", "Give f32, tf32 or bf16."});
  expect_refused([](auto& c) { c.sampler = static_cast<SamplerKind>(4); },
                 {"--sampler: 4", "Give uniform, weighted, labor or labor-dependent."});
}

TEST(ResumeSignature, ChangesWithWhatChangesTheRun) {
  const std::string signature = resume_signature(good_config(), 2);
  EXPECT_EQ(signature, resume_signature(good_config(), 2));
  EXPECT_EQ(signature.find('\n'), std::string::npos);
  EXPECT_NE(signature, resume_signature(good_config(), 3));
  for (const Change& change :
       std::initializer_list<Change>{[](TrainConfig& c) { c.model = nn::ModelKind::gcn; },
                                     [](TrainConfig& c) { c.own_model = "mine"; },
                                     [](TrainConfig& c) { c.hidden = 8; },
                                     [](TrainConfig& c) {
                                       c.fanouts = {15, 10};
                                     },
                                     [](TrainConfig& c) { c.sampler = SamplerKind::labor; },
                                     [](TrainConfig& c) { c.replace = true; },
                                     [](TrainConfig& c) { c.sampler = SamplerKind::labor_dependent; },
                                     [](TrainConfig& c) { c.inductive = true; },
                                     [](TrainConfig& c) { c.dropout = 0.1; },
                                     [](TrainConfig& c) { c.input_dropout = 0.1; },
                                     [](TrainConfig& c) { c.batch_size = 7; },
                                     [](TrainConfig& c) { c.learning_rate = 1; },
                                     [](TrainConfig& c) { c.weight_decay = 1; },
                                     [](TrainConfig& c) { c.optimizer = OptimizerKind::sgd; },
                                     [](TrainConfig& c) { c.seed = 9; },
                                     [](TrainConfig& c) { c.metric = Metric::macro_f1; },
                                     [](TrainConfig& c) { c.heads = {2}; },
                                     [](TrainConfig& c) { c.init_from = "runs/first"; },
                                     [](TrainConfig& c) { c.aggregate = nn::Aggregate::max; },
                                     [](TrainConfig& c) { c.lr_schedule.kind = ScheduleKind::step; },
                                     [](TrainConfig& c) { c.warmup_steps = 9; },
                                     [](TrainConfig& c) { c.clip_grad = 1; },
                                     [](TrainConfig& c) { c.loss = LossKind::bce; },
                                     [](TrainConfig& c) { c.class_weights = "balanced"; },
                                     [](TrainConfig& c) { c.accumulate = 2; },
                                     [](TrainConfig& c) { c.precision = Precision::tf32; }}) {
    TrainConfig config = good_config();
    change(config);
    EXPECT_NE(resume_signature(config, 2), signature) << resume_signature(config, 2);
  }
}

TEST(ResumeSignature, KnowsTheLengthOfASchedule) {
  TrainConfig ten = good_config(), twenty = good_config();
  ten.lr_schedule.kind = twenty.lr_schedule.kind = ScheduleKind::cosine;
  twenty.epochs = 20;
  EXPECT_NE(resume_signature(ten, 1), resume_signature(twenty, 1));
}

TEST(ResumeSignature, LeavesOpenWhatDoesNotChangeTheRun) {
  TrainConfig config = good_config();
  config.epochs = 99;
  config.pipeline = false;
  config.output = "elsewhere";
  config.resume = true;
  config.log_every = 5;
  config.eval_every = 3;
  EXPECT_EQ(resume_signature(config, 2), resume_signature(good_config(), 2));
  config.batch_size = 1;  // the batch of a step counts, however it was given
  config.global_batch_size = 2048;
  EXPECT_EQ(resume_signature(config, 2), resume_signature(good_config(), 2));
}

}  // namespace
}  // namespace strata::train
