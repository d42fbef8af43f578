// SPDX-License-Identifier: Apache-2.0
#include "report/report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "report/traffic.hpp"
#include "task/class_scores.hpp"

namespace strata::train {
namespace {

using nlohmann::json;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

comm::Topology::Rank rank_on(const std::string& host, int machine, Device device) {
  return {
      .host = host, .machine = machine, .local_rank = 0, .host_rank = 0, .device = device, .gpu_uuid = {}};
}

/// Two ranks on one machine, each with a GPU.
RunFacts two_gpus() {
  RunFacts facts;
  facts.config.graph = "parts/products";
  facts.config.fanouts = {15, 10, 5};
  facts.config.seed = 7;
  facts.config.output = "runs/first";
  facts.config.provenance.command_line = "strata-train --graph parts/products";
  facts.origin = {.version = "1.2.3, commit abc",
                  .libraries = {"libtorch 9"},
                  .parts_by = "strata-partition 1.2.0",
                  .hosts = {"alpha"},
                  .num_ranks = 2,
                  .folder = "/home/me",
                  .started = "2026-11-22T20:30:00"};
  facts.topology.ranks = {rank_on("alpha", 0, {Device::Kind::cuda, 0}),
                          rank_on("alpha", 0, {Device::Kind::cuda, 1})};
  facts.topology.machines = {{0, 1}};
  facts.manifest.name = "products";
  facts.manifest.book = graph::PartitionBook({0, 1000, 2500});
  facts.manifest.num_edges = 64000;
  facts.manifest.feature_cols = 100;
  facts.manifest.num_classes = 47;
  facts.manifest.num_train = 1200;
  facts.manifest.num_valid = 300;
  facts.manifest.num_test = 40;
  facts.plan = {{.tensor = "features",
                 .stratum = "replicated",
                 .rows = 2000,
                 .bytes = 800000,
                 .expected = {{.share = 0.9, .bytes_per_second = 1.5e12}}},
                {.tensor = "labels", .stratum = "host", .rows = 2500, .bytes = 10000, .expected = {}}};
  facts.hottest_rows = {{.share = 0.5, .rows = 20}};
  facts.missing = {.train = 1, .valid = 2, .test = 3};
  facts.num_parameters = 206895;
  facts.global_batch = 2048;
  facts.steps_per_epoch = 97;
  facts.batch_sizes = {.nodes = {1024, 9000.5}, .edges = {15000, 80000}};
  facts.batches_in_flight = 3;
  facts.cores = 8;
  facts.reducer = "nccl";
  return facts;
}

/// One rank on each of two machines, without GPUs.
RunFacts two_machines() {
  RunFacts facts = two_gpus();
  facts.topology.ranks = {rank_on("alpha", 0, {}), rank_on("beta", 1, {})};
  facts.topology.machines = {{0}, {1}};
  facts.reducer = "mpi";
  facts.row_exchange = batches::Transport::mpi;
  facts.batch_sizes = {};
  return facts;
}

EpochReport epoch_report() {
  return {.epoch = 2,
          .steps = 97,
          .seeds = 196000,
          .skipped_updates = 1,
          .unpadded_batches = 3,
          .input_rows = 5'000'000,
          .loss = 0.51234,
          .train_accuracy = 0.875,
          .seconds = 4,
          .stages = {.sample = 1.5, .gather = 0.25, .train = 0, .wait = 0.5},
          .sum_seconds = 1,
          .gathered_bytes = {{tensor::Stratum::replicated, 8'000'000'000},
                             {tensor::Stratum::host, 4'000'000'000}},
          .peak_host_bytes = 123456};
}

Scores scores(double accuracy) {
  return {.nodes = 300,
          .loss = 0.5,
          .values = {{.name = "accuracy", .title = "accuracy", .value = accuracy},
                     {.name = "macro_f1", .title = "macro F1", .value = 0.25},
                     {.name = "roc_auc", .title = "ROC AUC", .value = kNan}}};
}

ExchangeTotals exchange_totals() {
  return {.hops = {{.frontier = 1000, .remote = 250, .cached = 50, .bytes = 2048}},
          .rows = 5000,
          .remote_rows = 1000,
          .cached_rows = 400,
          .row_bytes = 1 << 20,
          .neighbors = {.all = 2, .waited = 0.5},
          .features = {.all = 3, .waited = 3}};
}

TEST(Banner, TellsGraphModelRanksAndPlan) {
  const std::string text = banner(two_gpus());
  EXPECT_THAT(text, StartsWith("graph   products: 2,500 nodes, 64,000 edges, 100 features (f32), 47 classes\n"
                               "        1,200 / 300 / 40 training, validation, test nodes\n"
                               "model   sage: fanouts 15,10,5, hidden 256, 206,895 parameters\n"
                               "        adam, lr 0.003, 2,048 seeds per step, 97 steps per epoch\n"
                               "ranks   2 ranks on 1 machine, 8 cores per rank, gradients over nccl\n"
                               "folder  runs/first\n"));
  EXPECT_THAT(text, HasSubstr("cuda:0 cuda:1"));
  EXPECT_THAT(text, HasSubstr("90.0 %"));
  EXPECT_THAT(text, HasSubstr("1500.0"));
  EXPECT_THAT(text, Not(HasSubstr("planned from")));
}

TEST(Banner, NamesNoSumOfGradientsOfOneRank) {
  RunFacts facts = two_gpus();
  facts.topology.ranks.resize(1);
  EXPECT_THAT(banner(facts), HasSubstr("ranks   1 rank on 1 machine, 8 cores per rank\n"));
}

TEST(NothingLeft, NamesTheReason) {
  TrainConfig config;
  config.epochs = 7;
  EXPECT_EQ(nothing_left(config, 7),
            "nothing is left to train: the run has done 7 of 7 epochs; more --epochs go on");
  config.patience = 2;
  EXPECT_THAT(nothing_left(config, 5), HasSubstr("done 5 of 7 epochs and stopped by --patience 2"));
}

TEST(Banner, TellsWhatThePlanWasMadeFrom) {
  RunFacts facts = two_gpus();
  facts.presampled_batches = 64;
  EXPECT_THAT(banner(facts), EndsWith("planned from the accesses of 64 batches\n"));
}

TEST(Banner, TellsHowMachinesExchangeRows) {
  RunFacts facts = two_machines();
  EXPECT_THAT(banner(facts), HasSubstr("2 ranks on 2 machines, 8 cores per rank, gradients over mpi,\n"
                                       "        feature rows over mpi\n"));
  facts.topology.virtual_machines = true;
  facts.row_exchange = batches::Transport::nccl;
  EXPECT_THAT(banner(facts), HasSubstr("2 ranks on 2 virtual machines"));
  EXPECT_THAT(banner(facts), HasSubstr("feature rows over nccl"));
}

TEST(Banner, NamesTheModelOfAUser) {
  RunFacts facts = two_gpus();
  facts.config.own_model = "transformer";
  EXPECT_THAT(banner(facts), HasSubstr("model   transformer: "));
}

TEST(Banner, CountsOneOfAKindInTheSingular) {
  RunFacts facts = two_gpus();
  facts.topology.ranks.pop_back();
  facts.topology.machines = {{0}};
  facts.cores = 1;
  facts.global_batch = facts.steps_per_epoch = 1;
  const std::string text = banner(facts);
  EXPECT_THAT(text, HasSubstr("1 seed per step, 1 step per epoch\n"));
  EXPECT_THAT(text, HasSubstr("1 rank on 1 machine, 1 core per rank"));
}

TEST(ConfigRecord, HasEveryOptionWithItsSource) {
  TrainConfig config = two_gpus().config;
  config.provenance.given_by = {{"graph", "command line"}, {"fanouts", "job.toml:3:1"}};
  const std::string text = config_record(config, two_gpus().origin);
  EXPECT_THAT(text, StartsWith("# Strata 1.2.3, commit abc; libtorch 9\n"
                               "# 2026-11-22T20:30:00, 2 ranks on alpha\n"
                               "# in /home/me\n"
                               "# parts by strata-partition 1.2.0\n"
                               "# strata-train --graph parts/products\n"));
  EXPECT_THAT(text, HasSubstr("\n[data]\ngraph = \"parts/products\"  # command line\n"));
  EXPECT_THAT(text, HasSubstr("\n# output = \"runs/first\"  # the program\n")) << "of this run only";
  EXPECT_THAT(text, HasSubstr("\nfanouts = [15, 10, 5]  # job.toml:3:1\n"));
  EXPECT_THAT(text, HasSubstr("\nseed = 7  # the program\n"));
  EXPECT_THAT(text, HasSubstr("\nhidden = 256  # default\n"));
  EXPECT_THAT(text, HasSubstr("\nmodel = \"sage\"  # default\n"));
  config.own_model = "mine";
  EXPECT_THAT(config_record(config, two_gpus().origin), HasSubstr("\n# model = \"mine\"  # the program\n"));
  EXPECT_EQ(options_record(config)["model"], "mine");
}

TEST(RunRecord, HasWhatMakesTheRun) {
  json record = run_record(two_gpus());
  EXPECT_EQ(record["options"]["hidden"], 256);
  EXPECT_EQ(record["options"]["fanouts"], json({15, 10, 5}));
  EXPECT_EQ(record["options"]["lr-schedule"], "constant");
  record.erase("options");
  EXPECT_EQ(record, json::parse(R"({
    "type": "run", "version": 1, "graph": "parts/products", "nodes": 2500, "edges": 64000, "parts": 2,
    "model": "sage", "fanouts": [15, 10, 5], "sampler": "uniform", "replace": false,
    "labor_dependent": false, "inductive": false, "hidden": 256, "global_batch_size": 2048, "steps_per_epoch": 97,
    "feature_cols": 100, "classes": 47, "targets": 0, "unlabelled": {"train": 1, "valid": 2, "test": 3},
    "plan": [{"tensor": "features", "stratum": "replicated", "rows": 2000, "bytes": 800000, "share": 0.9,
              "bytes_per_second": 1.5e12},
             {"tensor": "labels", "stratum": "host", "rows": 2500, "bytes": 10000, "share": null,
              "bytes_per_second": null}],
    "hottest_rows": [{"share": 0.5, "rows": 20}],
    "presampled_batches": 0, "batch_nodes": [1024.0, 9000.5], "batch_edges": [15000.0, 80000.0], "batches_in_flight": 3, "parameters": 206895, "link": null,
    "gpu_link": null, "seed": 7, "ranks": 2,
    "machines": 1, "device": "cuda", "sm_split": "auto", "reducer": "nccl", "row_exchange": "",
    "strata": "1.2.3, commit abc", "libraries": ["libtorch 9"],
    "parts_by": "strata-partition 1.2.0", "hosts": ["alpha"],
    "started": "2026-11-22T20:30:00", "command": "strata-train --graph parts/products"})"));
}

TEST(RunRecord, HasNoSizesOfBatchesThatAreNotPadded) {
  const json record = run_record(two_machines());
  EXPECT_EQ(record.at("batch_nodes"), json::array());
  EXPECT_EQ(record.at("batch_edges"), json::array());
  EXPECT_EQ(record.at("device"), "cpu");
  EXPECT_EQ(record.at("machines"), 2);
  EXPECT_EQ(record.at("row_exchange"), "mpi");
}

TEST(RunRecord, TellsOfEachLinkThatWasMeasured) {
  RunFacts facts = two_machines();
  facts.link = {.round_seconds = 0.25, .bytes_per_second = 1e9};
  facts.gpu_link = {};
  EXPECT_EQ(run_record(facts).at("link"), json({{"round_seconds", 0.25}, {"bytes_per_second", 1e9}}));
  EXPECT_EQ(run_record(facts).at("gpu_link"), nullptr);
  facts.gpu_link = {.round_seconds = 0.125, .bytes_per_second = 2e11};
  EXPECT_EQ(run_record(facts).at("gpu_link"), json({{"round_seconds", 0.125}, {"bytes_per_second", 2e11}}));
}

TEST(StepRecord, HasNullForALossThatIsNotFinite) {
  EXPECT_EQ(step_record(1, 20, 0.5, 0.75), json::parse(R"({
    "type": "step", "epoch": 1, "step": 20, "loss": 0.5, "train_accuracy": 0.75})"));
  EXPECT_EQ(step_record(1, 20, kNan, 0).at("loss"), nullptr);
  EXPECT_EQ(step_record(1, 20, std::numeric_limits<double>::infinity(), 0).at("loss"), nullptr);
}

TEST(EpochRecord, DividesTheTimeOfAnEpoch) {
  EXPECT_EQ(epoch_record(epoch_report()), json::parse(R"({
    "type": "epoch", "epoch": 2, "steps": 97, "seeds": 196000, "skipped_updates": 1, "unpadded_batches": 3,
    "input_rows": 5000000, "loss": 0.51234, "train_accuracy": 0.875, "seconds": 4.0, "seeds_per_second": 49000.0,
    "sample_seconds": 1.5, "gather_seconds": 0.25, "wait_seconds": 0.5, "train_seconds": 3.5,
    "compute_seconds": 2.5, "sum_seconds": 1.0, "peak_host_bytes": 123456,
    "gathered_bytes": {"replicated": 8000000000, "striped": 0, "host": 4000000000}})"));
}

TEST(EpochRecord, HasNoNegativeTimes) {
  EpochReport report = epoch_report();
  report.sum_seconds = 5;
  EXPECT_EQ(epoch_record(report).at("compute_seconds"), 0.0);
  report.seconds = 0;
  EXPECT_EQ(epoch_record(report).at("seeds_per_second"), 0.0);
}

Evaluation evaluation_of(double valid, double test) {
  return {.valid = scores(valid), .test = scores(test), .seconds = 2, .stopped = false};
}

TEST(BarWords, TellTheLossSoFarAndTheBestScore) {
  EXPECT_EQ(bar_words({}), "");
  EXPECT_EQ(bar_words({.loss_sum = 6, .seeds = 4}), "loss 1.5000");
  EXPECT_EQ(bar_words({.loss_sum = 123.45, .seeds = 10}), "loss 12.345");
  const Scores best = scores(0.75);
  EXPECT_EQ(bar_words({.loss_sum = 6, .seeds = 4, .best_valid = &best, .metric = "accuracy"}),
            "loss 1.5000  best 0.7500");
}

TEST(EpochLine, TellsLossScoresTimeAndTheBest) {
  const EpochReport trained = epoch_report();
  const Evaluation evaluation = evaluation_of(0.75, 0.5);
  EXPECT_EQ(epoch_line({.epoch = 2,
                        .epochs = 10,
                        .trained = &trained,
                        .evaluation = &evaluation,
                        .metric = "accuracy",
                        .is_best = true}),
            "epoch  2/10  loss 0.5123  valid 0.7500  test 0.5000    4.0 s  49.0k seeds/s *");
  EXPECT_EQ(epoch_line({.epoch = 2, .epochs = 9, .trained = &trained}),
            "epoch 2/9  loss 0.5123    4.0 s  49.0k seeds/s");
  EXPECT_EQ(epoch_line({.epoch = 2, .epochs = 9, .evaluation = &evaluation, .metric = "macro_f1"}),
            "epoch 2/9  valid 0.2500  test 0.2500");
}

TEST(EpochLine, FitsIntoEightyColumns) {
  EpochReport trained = epoch_report();
  trained.loss = 12.34567;
  trained.seconds = 12345;
  trained.seeds = 123'456'789'012;
  const Evaluation evaluation = evaluation_of(0.75, 0.5);
  const std::string line = epoch_line({.epoch = 100,
                                       .epochs = 100,
                                       .trained = &trained,
                                       .evaluation = &evaluation,
                                       .metric = "accuracy",
                                       .is_best = true});
  EXPECT_LE(line.size(), 80u) << line;
}

TEST(EpochLine, HasADashForScoresThatThereAreNot) {
  const Evaluation none = evaluation_of(kNan, 0.5);
  EXPECT_EQ(epoch_line({.epoch = 1, .epochs = 1, .evaluation = &none, .metric = "accuracy"}),
            "epoch 1/1  valid -  test 0.5000");
}

TEST(FanoutsNote, ExplainsZero) {
  EXPECT_EQ(fanouts_note({10, -1}), "");
  EXPECT_THAT(fanouts_note({10, 0}), HasSubstr("--fanouts 10,0: hop 2 takes no neighbors"));
}

TEST(StagesLine, TellsWhereTheTimeWent) {
  EpochReport report = epoch_report();
  EXPECT_EQ(
      stages_line(report),
      "  epoch 2: train accuracy 0.8750; sample 1.5 s, gather 250.0 ms; compute 2.5 s, wait for batches "
      "500.0 ms, sum over ranks 1.0 s; rows: 7.5 GiB replicated, 3.7 GiB host, 3.0 GB/s");
  report.gathered_bytes = {};
  EXPECT_THAT(stages_line(report), EndsWith("sum over ranks 1.0 s"));
}

TEST(ClosingText, SaysWhereTheModelIsAndHowToGoOn) {
  TrainConfig config;
  config.output = "runs/first";
  config.graph = "parts";
  TrainResult complete, stopped;
  complete.best_epoch = 4;
  stopped.stopped = true;
  stopped.epochs_done = 2;
  EXPECT_EQ(closing_text(config, complete),
            "model   runs/first/model.safetensors, of epoch 4\n"
            "next    strata-train predict runs/first --graph parts \\\n          --output logits.npy\n");
  EXPECT_THAT(closing_text(config, stopped),
              HasSubstr("stopped in epoch 3; continue with\n  strata-train --resume runs/first\n"));
  config.graph = "memory:Data(x=[3, 2]);parts";
  EXPECT_THAT(closing_text(config, complete), EndsWith("next    strata.predict(\"runs/first\", data)\n"));
  EXPECT_THAT(closing_text(config, stopped), EndsWith("  strata.train(data, resume=\"runs/first\")\n"));
}

TEST(SmSplitRecord, HasEveryMeasuredSplit) {
  const SmSplitResult result{
      .times = {{.shares = kNoSmSplit, .seconds = 0.25}, {.shares = {10, 90}, .seconds = 0.5}},
      .choice = kNoSmSplit};
  EXPECT_EQ(sm_split_record(result), json::parse(R"({
    "type": "sm_split", "choice": "off",
    "measured": [{"split": "off", "step_seconds": 0.25}, {"split": "10,90", "step_seconds": 0.5}]})"));
}

TEST(EvaluationRecord, HasNullForScoresThatThereAreNot) {
  const Evaluation evaluation{.valid = scores(0.75), .test = scores(0.5), .seconds = 2, .stopped = false};
  EXPECT_EQ(evaluation_record(3, evaluation), json::parse(R"({
    "type": "evaluation", "epoch": 3, "seconds": 2.0,
    "valid": {"nodes": 300, "loss": 0.5, "accuracy": 0.75, "macro_f1": 0.25, "roc_auc": null},
    "test": {"nodes": 300, "loss": 0.5, "accuracy": 0.5, "macro_f1": 0.25, "roc_auc": null}})"));
}

TEST(DetailsRecord, HasCountsAndTheMatrixWhereItIsKept) {
  ClassCounts classes{.labelled = {3, 2}, .predicted = {4, 1}, .correct = {3, 1}, .confusion = {3, 0, 1, 1}};
  EXPECT_EQ(details_record(4, details_of(classes)), json::parse(R"({
    "type": "classes", "epoch": 4, "labelled": [3, 2], "predicted": [4, 1], "correct": [3, 1],
    "confusion": [[3, 0], [1, 1]]})"));
  classes.confusion.clear();
  EXPECT_EQ(details_record(4, details_of(classes)).at("confusion"), nullptr);
  classes.labelled.resize(1001);
  EXPECT_EQ(details_of(classes), "") << "more than anybody reads one by one";
}

TEST(ExchangeRecord, HasHopsAndRows) {
  EXPECT_EQ(exchange_record(exchange_totals()), json::parse(R"({
    "type": "exchange",
    "neighbors": {"seconds": 2.0, "waited_seconds": 0.5,
                  "hops": [{"nodes": 1000, "remote": 250, "cached": 50, "bytes": 2048}]},
    "features": {"seconds": 3.0, "waited_seconds": 3.0, "rows": 5000, "remote": 1000, "cached": 400,
                 "bytes": 1048576}})"));
}

TEST(ExchangeTable, TellsSharesAndWhatIsHidden) {
  const std::string text = exchange_table(exchange_totals());
  for (const char* cell : {"neighbors, hop 1", "25.0 %", "20.0 %", "2.0 KiB", "feature rows", "40.0 %"})
    EXPECT_THAT(text, HasSubstr(cell));
  EXPECT_THAT(text, EndsWith("exchange of a rank within its stage: neighbors 2.0 s, 1.5 s of it hidden; "
                             "feature rows 3.0 s, 0 us of it hidden\n"));
}

TEST(ExchangeTable, HasADashForAShareOfNothing) {
  ExchangeTotals totals = exchange_totals();
  totals.hops.clear();
  totals.rows = totals.remote_rows = totals.cached_rows = 0;
  EXPECT_THAT(exchange_table(totals), Not(HasSubstr("%")));
}

FinalReport final_report() {
  return {.result = {.stopped = false,
                     .best_epoch = 4,
                     .valid = scores(0.75),
                     .test = scores(0.5),
                     .epochs_done = 5,
                     .seeds_per_second = 49000,
                     .weights = nullptr},
          .peak_host_bytes = 3 << 20,
          .peak_device_bytes = 5 << 20};
}

TEST(RankTraffic, TellsWhatAnEpochAdded) {
  RankTraffic before{.neighbors = sampling::ExchangeReport(1), .rows = {.rows = 10, .row_bytes = 7}};
  before.neighbors.frontier_nodes = {100};
  before.neighbors.traffic = {{.request_messages = 1, .request_bytes = 8, .rounds = 4}};
  RankTraffic now = before;
  now.neighbors.frontier_nodes = {150};
  now.neighbors.traffic[0] += {.request_messages = 2, .request_bytes = 24, .answer_bytes = 5, .rounds = 4};
  now.neighbors.seconds = 1.5;
  now.rows.rows = 30;
  now.rows.repeated_fetches = 1;
  const json record = rank_traffic_json(3, 1, epoch_report(), now.since(before));
  EXPECT_EQ(record.at("rank"), 3);
  EXPECT_EQ(record.at("machine"), 1);
  EXPECT_EQ(record.at("compute_seconds"), 2.5);
  const json hop = json::parse(R"({"nodes": 50, "remote": 0, "cached": 0, "request_messages": 2,
    "request_bytes": 24, "answer_messages": 0, "answer_bytes": 5, "received_bytes": 0, "rounds": 4})");
  EXPECT_EQ(record.at("neighbors").at("hops"), json::array({hop}));
  EXPECT_EQ(record.at("neighbors").at("seconds"), 1.5);
  EXPECT_EQ(record.at("features").at("rows"), 20);
  EXPECT_EQ(record.at("features").at("row_bytes"), 0);
  EXPECT_EQ(record.at("features").at("repeated"), 1);
}

TEST(FinalRecord, HasTheScoresOfTheBestEpoch) {
  EXPECT_EQ(final_record(final_report()), json::parse(R"({
    "type": "final", "stopped": false, "epochs": 5, "best_epoch": 4, "seeds_per_second": 49000.0,
    "peak_host_bytes": 3145728, "peak_device_bytes": 5242880,
    "valid": {"nodes": 300, "loss": 0.5, "accuracy": 0.75, "macro_f1": 0.25, "roc_auc": null},
    "test": {"nodes": 300, "loss": 0.5, "accuracy": 0.5, "macro_f1": 0.25, "roc_auc": null}})"));
}

TEST(FinalTable, TellsScoresSpeedAndMemory) {
  FinalReport report = final_report();
  EXPECT_THAT(final_table(report), StartsWith("best epoch 4"));
  EXPECT_THAT(final_table(report),
              EndsWith("49,000 seeds/s, peak host memory of rank 0 3.0 MiB, of libtorch on "
                       "its GPU 5.0 MiB\n"));
  EXPECT_THAT(final_table(report), Not(HasSubstr("nan")));
  report.result.valid.values.back().value = 0.875;
  EXPECT_THAT(final_table(report), HasSubstr("0.8750"));
  report.peak_device_bytes = 0;
  EXPECT_THAT(final_table(report), Not(HasSubstr("GPU"))) << "on the cpu";
}

}  // namespace
}  // namespace strata::train
