// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "strata/cli/program.hpp"
#include "strata/util/files.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace strata::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Arguments = std::vector<std::string>;

ParsedOptions parse(const Arguments& arguments) {
  std::vector<const char*> argv{"strata-train"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  return parse_train_options(static_cast<int>(argv.size()), argv.data());
}

train::TrainConfig config_of(Arguments arguments) {
  arguments.insert(arguments.begin(), {"--graph", "parts"});
  return parse(arguments).config.value();
}

void expect_refused(Arguments arguments, const std::vector<std::string>& parts) {
  arguments.insert(arguments.begin(), {"--graph", "parts"});
  test::expect_error([&] { parse(arguments); }, parts);
}

TEST(TrainOptions, AreTheDefaultsOfTheLibraryUnlessGiven) {
  const train::TrainConfig config = config_of({}), library;
  EXPECT_EQ(config.graph.text(), "parts");
  EXPECT_EQ(config.fanouts, library.fanouts);
  EXPECT_EQ(config.sampler, library.sampler);
  EXPECT_EQ(config.sampler_device, comm::TopologyOptions::Compute::automatic);
  EXPECT_EQ(config.replace, library.replace);
  EXPECT_EQ(config.hidden, library.hidden);
  EXPECT_EQ(config.batch_size, library.batch_size);
  EXPECT_EQ(config.learning_rate, library.learning_rate);
  EXPECT_EQ(config.optimizer, library.optimizer);
  EXPECT_EQ(config.pipeline, library.pipeline);
  EXPECT_EQ(config.sm_split, "auto");
  EXPECT_EQ(config.topology.compute, comm::TopologyOptions::Compute::automatic);
}

TEST(TrainOptions, AreUtf8ForTheyStandInRecords) {
  expect_refused({"--output", "na\xefve"}, {"argument 4: byte 0xef at offset 2 is not UTF-8"});
  EXPECT_EQ(config_of({"--output", "naïve"}).output, "naïve");
}

TEST(TrainOptions, TellHowHostRowsAreRead) {
  using tensor::HostPath;
  EXPECT_EQ(config_of({}).host_gather, HostPath::automatic);
  EXPECT_EQ(config_of({"--host-gather", "zero-copy"}).host_gather, HostPath::zero_copy);
  EXPECT_EQ(config_of({"--host-gather", "threads"}).host_gather, HostPath::threads);
  EXPECT_EQ(config_of({"--host-gather", "both"}).host_gather, HostPath::both);
  expect_refused({"--host-gather", "dma"}, {"--host-gather"});
}

TEST(TrainOptions, SayHowMachinesExchange) {
  EXPECT_EQ(config_of({}).exchange, batches::Transport::automatic);
  EXPECT_EQ(config_of({"--exchange", "mpi"}).exchange, batches::Transport::mpi);
  expect_refused({"--exchange", "tcp"}, {"--exchange"});
}

TEST(TrainOptions, HaveSchedulesWithTheirNumbers) {
  using train::ScheduleKind;
  EXPECT_EQ(config_of({}).lr_schedule.kind, ScheduleKind::constant);
  EXPECT_EQ(config_of({"--lr-schedule", "cosine"}).lr_schedule.kind, ScheduleKind::cosine);
  const auto step = config_of({"--lr-schedule", "step"}).lr_schedule;
  EXPECT_EQ(step.kind, ScheduleKind::step);
  EXPECT_EQ(step.step_size, 1000);
  EXPECT_EQ(step.gamma, 0.1);
  EXPECT_EQ(config_of({"--lr-schedule", "step:20"}).lr_schedule.step_size, 20);
  EXPECT_EQ(config_of({"--lr-schedule", "step:20:0.5"}).lr_schedule.gamma, 0.5);
  expect_refused({"--lr-schedule", "cosine:20"}, {"--lr-schedule cosine:20", "only step takes numbers"});
  for (const char* text : {"step:", "step:x", "step:0", "step:20:", "step:20:2", "step:20:0.5:1"})
    expect_refused({"--lr-schedule", text}, {"--lr-schedule"});
}

TEST(TrainOptions, TellHowSmsAreSplit) {
  EXPECT_EQ(config_of({"--sm-split", "20,100"}).sm_split, "20,100");
  EXPECT_EQ(config_of({"--sm-split", "off", "--pipeline", "off"}).sm_split, "off");
  EXPECT_EQ(config_of({"--pipeline", "off"}).sm_split, "auto");
}

TEST(TrainOptions, TellWhatIsKeptOfOtherMachines) {
  EXPECT_EQ(config_of({}).replicate_graph, plan::Replication::automatic);
  EXPECT_EQ(config_of({"--replicate-graph", "on"}).replicate_graph, plan::Replication::on);
  EXPECT_EQ(config_of({"--replicate-graph", "off"}).replicate_graph, plan::Replication::off);
  EXPECT_EQ(config_of({}).halo_cache_bytes, plan::kAutomatic);
  EXPECT_EQ(config_of({"--halo-cache", "0"}).halo_cache_bytes, 0);
  EXPECT_EQ(config_of({"--halo-cache", "3MiB"}).halo_cache_bytes, 3 << 20);
  expect_refused({"--replicate-graph", "half"}, {"--replicate-graph"});
  for (const char* value : {"much", "off", "none", "-5"})
    expect_refused({"--halo-cache", value}, {value, "0 for none, or auto"});
  expect_refused({"--halo-cache", "999999999999TiB"}, {"too large", "0 for none, or auto"});
}

TEST(TrainOptions, NameRelationsAndTypes) {
  const auto config = config_of({"--model", "rgcn", "--fanouts", "5,5", "--relation-fanouts",
                                 "cites=15,-1;a__writes__b=0,2", "--target", "paper", "--bases", "3"});
  EXPECT_EQ(config.target, "paper");
  EXPECT_EQ(config.bases, 3);
  ASSERT_EQ(config.relation_fanouts.size(), 2u);
  EXPECT_EQ(config.relation_fanouts[0].relation, "cites");
  EXPECT_THAT(config.relation_fanouts[0].fanouts, ElementsAre(15, -1));
  EXPECT_EQ(config.relation_fanouts[1].relation, "a__writes__b");
  EXPECT_THAT(config.relation_fanouts[1].fanouts, ElementsAre(0, 2));
  expect_refused({"--relation-fanouts", "15,10"}, {"\"15,10\" does not name a relation", "NAME=15,10"});
  expect_refused({"--relation-fanouts", "cites=5,x"}, {"--relation-fanouts"});
}

TEST(TrainOptions, AreRead) {
  const auto config = config_of({"--model",
                                 "gcn",
                                 "--fanouts",
                                 "-1,-1",
                                 "--sampler",
                                 "labor-dependent",
                                 "--inductive",
                                 "--sampler-device",
                                 "cpu",
                                 "--hidden=64",
                                 "--lr",
                                 "1e-2",
                                 "--optimizer",
                                 "adamw",
                                 "--seed",
                                 "18446744073709551615",
                                 "--device",
                                 "cpu",
                                 "--gpu-memory",
                                 "1.5GiB",
                                 "--placement",
                                 "features=10/40/50,indices=0/0/100",
                                 "--pipeline",
                                 "off",
                                 "--precision",
                                 "tf32",
                                 "--eval-fanouts",
                                 "20,20",
                                 "--metric",
                                 "macro_f1",
                                 "--ranks-per-machine",
                                 "2",
                                 "--resume"});
  EXPECT_EQ(config.model, nn::ModelKind::gcn);
  EXPECT_THAT(config.fanouts, ElementsAre(-1, -1));
  EXPECT_EQ(config.sampling_method(), sampling::Method::labor);
  EXPECT_TRUE(config.is_layer_dependent());
  EXPECT_TRUE(config.inductive);
  EXPECT_FALSE(config.replace);
  EXPECT_EQ(config.hidden, 64);
  EXPECT_EQ(config.learning_rate, 0.01);
  EXPECT_EQ(config.optimizer, train::OptimizerKind::adamw);
  EXPECT_EQ(config.seed, ~std::uint64_t{0});
  EXPECT_EQ(config.topology.compute, comm::TopologyOptions::Compute::cpu);
  EXPECT_EQ(config.gpu_memory_bytes, std::int64_t{3} << 29);
  EXPECT_EQ(config.placement, "features=10/40/50,indices=0/0/100");
  EXPECT_FALSE(config.pipeline);
  EXPECT_EQ(config.precision, train::Precision::tf32);
  EXPECT_TRUE(config.resume);
  EXPECT_THAT(config.eval_fanouts, ElementsAre(20, 20));
  EXPECT_EQ(config.metric, train::Metric::macro_f1);
  EXPECT_EQ(config.topology.ranks_per_machine, 2);
}

TEST(TrainOptions, TheLastOfTwoCounts) {
  EXPECT_EQ(config_of({"--hidden", "32", "--hidden", "128"}).hidden, 128);
  EXPECT_THAT(config_of({"--fanouts", "15,10", "--fanouts", "5,4"}).fanouts, ElementsAre(5, 4));
  EXPECT_TRUE(config_of({"--resume", "--resume"}).resume);
}

TEST(TrainOptions, ComeFromAFileUnderTheCommandLine) {
  const test::TemporaryFolder folder;
  const auto path = folder / "run.toml";
  write_file_atomically(
      path, "graph = \"from-file\"\nhidden = 48\nfanouts = [4, 3]\nlr = 0.5\nprecision = \"tf32\"\n");
  const auto from_file = parse({"--config", path.string()}).config.value();
  EXPECT_EQ(from_file.graph.text(), "from-file");
  EXPECT_EQ(from_file.hidden, 48);
  EXPECT_THAT(from_file.fanouts, ElementsAre(4, 3));
  EXPECT_EQ(from_file.precision, train::Precision::tf32);
  const auto both = parse({"--hidden", "96", "--config", path.string(), "--fanouts", "7"}).config.value();
  EXPECT_EQ(both.graph.text(), "from-file");
  EXPECT_EQ(both.hidden, 96);
  EXPECT_THAT(both.fanouts, ElementsAre(7));
  EXPECT_EQ(both.learning_rate, 0.5);
}

TEST(TrainOptions, OfAFileAreCheckedToo) {
  const test::TemporaryFolder folder;
  const auto path = folder / "run.toml";
  write_file_atomically(path, "hiden = 48\n");
  expect_refused({"--config", path.string()}, {"hiden"});
  write_file_atomically(path, "hidden = \"wide\"\n");
  expect_refused({"--config", path.string()}, {"hidden", "wide"});
  write_file_atomically(path, "epochs = -3\n");
  expect_refused({"--config", path.string()}, {"--epochs: -3"});
  expect_refused({"--config", (folder / "missing.toml").string()}, {"missing.toml"});
  expect_refused({"--config", folder.path().string()}, {"is a directory"});
}

TEST(TrainOptions, OfAFileAreNamedWithTheirPlace) {
  const test::TemporaryFolder folder;
  const std::string path = (folder / "run.toml").string();
  write_file_atomically(path, "\nepochs = -3\n[evaluation]\neval-fanouts = [5]\n");
  expect_refused({"--config", path}, {"--eval-fanouts has 1 entries", path + ":4:1"});
  expect_refused({"--config", path, "--eval-fanouts", ""}, {"--epochs: -3", path + ":2:1"});
  const auto message = [&] {
    try {
      parse({"--graph", "parts", "--config", path, "--eval-fanouts", "", "--epochs", "-4"});
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  }();
  EXPECT_EQ(message, "--epochs: -4 is not positive") << "the file has no part in it";
}

TEST(TrainOptions, OverruleTheSwitchesOfAFile) {
  const test::TemporaryFolder folder;
  const std::string path = (folder / "run.toml").string();
  write_file_atomically(path, "resume = true\npipeline = false\n");
  const auto file = config_of({"--config", path});
  EXPECT_TRUE(file.resume);
  EXPECT_FALSE(file.pipeline);
  const auto line = config_of({"--config", path, "--resume=false", "--pipeline", "on"});
  EXPECT_FALSE(line.resume);
  EXPECT_TRUE(line.pipeline);
}

TEST(TrainOptions, AreNumbersInOneSense) {
  expect_refused({"--hidden", "00012"}, {"--hidden", "00012", "leading zero"});
  expect_refused({"--epochs", "1e3"}, {"--epochs", "1e3"});
  expect_refused({"--epochs", "3.0"}, {"--epochs", "3.0"});
  expect_refused({"--epochs", "2147483648"}, {"--epochs", "at most 2147483647"});
  expect_refused({"--lr", "0.00 3"}, {"--lr", "0.00 3"});
  expect_refused({"--lr", "inf"}, {"--lr", "inf is not finite"});
  expect_refused({"--weight-decay", "inf"}, {"--weight-decay", "inf is not finite"});
  expect_refused({"--dropout", "nan"}, {"--dropout", "nan is not finite"});
  expect_refused({"--fanouts", "5,010"}, {"--fanouts", "010"});
  expect_refused({"--class-weights", "1,inf"}, {"--class-weights", "inf"});
  expect_refused({"--class-weights", "1,-2"}, {"--class-weights", "-2"});
  expect_refused({"--seed", "-1"}, {"--seed", "-1"});
}

TEST(TrainOptions, ThatAreWrongAreNamed) {
  expect_refused({"--fanout", "5"}, {"unknown option --fanout", "Did you mean --fanouts?"});
  expect_refused({"--epoch=5"}, {"unknown option --epoch", "Did you mean --epochs?"});
  expect_refused({"stray"}, {"stray", "--help"});
  expect_refused({"--fanouts", "15", "10"}, {"unexpected argument 10", "15,10,5"});
  expect_refused({"--model", "sgae"}, {"--model", "sgae", "Did you mean sage?"});
  expect_refused({"--model", "mlp"}, {"--model", "mlp", "sage"});
  expect_refused({"--precision", "f16"}, {"--precision", "bf16"});
  expect_refused({"--aggregate", "median"}, {"--aggregate", "max"});
  expect_refused({"--lr-schedule", "linear"}, {"--lr-schedule", "cosine"});
  expect_refused({"--loss", "hinge"}, {"--loss", "bce"});
  expect_refused({"--on-nan", "ignore"}, {"--on-nan", "skip"});
  expect_refused({"--model", "gat", "--hidden", "10"}, {"--hidden: 10", "4 heads"});
  expect_refused({"--model", "gat", "--heads", "8,5,8", "--hidden", "64"}, {"--hidden: 64", "5 heads"});
  expect_refused({"--model", "gat", "--heads", "8,8"}, {"--heads has 2 entries", "3 layers"});
  expect_refused({"--residual"}, {"--residual has no effect without --model gat"});
  expect_refused({"--optimizer", "rmsprop"}, {"--optimizer", "adamw"});
  expect_refused({"--metric", "loss"}, {"--metric", "roc_auc"});
  expect_refused({"--device", "tpu"}, {"--device", "cuda"});
  expect_refused({"--pipeline", "maybe"}, {"--pipeline", "off"});
  expect_refused({"--sm-split", "10"}, {"--sm-split 10", "10,90"});
  expect_refused({"--sm-split", "10,90", "--pipeline", "off"},
                 {"--sm-split 10,90 contradicts --pipeline off"});
  expect_refused({"--hidden", "many"}, {"--hidden", "many"});
  expect_refused({"--fanouts", "5,x"}, {"--fanouts", "x"});
  expect_refused({"--hidden"}, {"--hidden"});
  expect_refused({"--gpu-memory", "lots"}, {"\"lots\"", "4GiB"});
  expect_refused({"--placement", "features=10/40/60"}, {"--placement", "110 percent", "features=10/40/50"});
  expect_refused({"--placement", "gpu"}, {"--placement", "\"gpu\"", "replicate"});
  expect_refused({"--dropout", "1.5"}, {"--dropout: 1.5"});
  test::expect_error([] { parse({}); }, {"--graph is missing"});
}

TEST(TrainOptions, ThatOtherProgramsHaveAreExplained) {
  expect_refused({"--num-layers", "3"},
                 {"unknown option --num-layers", "--fanouts has one number per layer"});
  expect_refused({"--num_layers", "3"}, {"--fanouts has one number per layer"});
  expect_refused({"--learning-rate=1"}, {"Did you mean --lr?"});
  expect_refused({"--lr_schedule", "step"}, {"Did you mean --lr-schedule?"});
  expect_refused({"--model", "GraphSAGE"}, {"there is no \"GraphSAGE\"", "Did you mean sage?"});
  expect_refused({"--model", "GAT"}, {"Did you mean gat?"});
  expect_refused({"--device", "gpu"}, {"Did you mean cuda?"});
  expect_refused({"run.toml"}, {"Did you mean --config run.toml?"});
}

TEST(TrainOptions, ThatOnceWereNameWhatToUse) {
  expect_refused({"--tf32"}, {"unknown option --tf32", "Did you mean --precision tf32?"});
  expect_refused({"--lr-gamma", "0.5"}, {"--lr-schedule step:UPDATES:FACTOR"});
  expect_refused({"--neighbor-exchange", "nccl"}, {"Did you mean --exchange?"});
  expect_refused({"--plan-only"}, {"strata-plan"});
  expect_refused({"--predictions", "logits.npy"}, {"strata-train predict RUN"});
}

TEST(TrainOptions, SayWhereTheyCameFrom) {
  const test::TemporaryFolder folder;
  const std::string path = (folder / "job.toml").string();
  write_file_atomically(path, "hidden = 48\nepochs = 4\n");
  const auto config = config_of({"--config", path, "--epochs", "5", "--output", "it's mine"});
  EXPECT_EQ(config.provenance.given_by.at("hidden"), path + ":1:1");
  EXPECT_EQ(config.provenance.given_by.at("epochs"), "command line");
  EXPECT_FALSE(config.provenance.given_by.contains("lr"));
  EXPECT_THAT(config.provenance.command_line, testing::StartsWith("strata-train --graph parts --config "));
  EXPECT_THAT(config.provenance.command_line, testing::EndsWith(R"( --epochs 5 --output 'it'\''s mine')"));
}

TEST(TrainOptions, OfARunThatIsResumedAreInItsFolder) {
  const test::TemporaryFolder folder;
  const std::string run = folder.path().string();
  write_file_atomically(folder / "config.toml",
                        "graph = \"mine\"\nhidden = 48\nepochs = 4\n# output = \"x\"\n");
  for (const Arguments& arguments : {Arguments{"--resume", run}, Arguments{"--resume", "--output", run}}) {
    const auto config = parse(arguments).config.value();
    EXPECT_TRUE(config.resume);
    EXPECT_EQ(config.output, run);
    EXPECT_EQ(config.graph.text(), "mine");
    EXPECT_EQ(config.hidden, 48);
    EXPECT_EQ(config.provenance.given_by.at("hidden"), run + "/config.toml");
  }
  EXPECT_EQ(parse({"--resume", run, "--epochs", "9"}).config->epochs, 9);
  expect_refused({"--resume", run, "--output", "elsewhere"}, {"contradicts --output elsewhere"});
  expect_refused({"--resume", run, "--overwrite"}, {"--overwrite contradicts --resume"});
}

TEST(TrainOptions, OfAUseOfAModelAreItsRunsAndItsOwn) {
  const test::TemporaryFolder folder;
  const std::string run = folder.path().string();
  write_file_atomically(folder / "config.toml",
                        "graph = \"mine\"\nhidden = 48\nmodel = \"gcn\"\nplacement = \"host\"\n");
  const auto options = parse({"predict", run, "--graph", "parts", "--split", "test", "--output", "l.csv"});
  EXPECT_EQ(options.config->model, nn::ModelKind::gcn);
  EXPECT_EQ(options.config->hidden, 48);
  EXPECT_EQ(options.config->graph.text(), "parts");
  EXPECT_EQ(options.config->placement, "auto") << "where the run was computed is nothing to another";
  EXPECT_EQ(options.inference->run, run);
  EXPECT_EQ(options.inference->logits, "l.csv");
  EXPECT_EQ(options.inference->split, train::NodeSplit::test);
  test::expect_error([&] { parse({"predict", run}); }, {"--graph is missing", "mine"});
  test::expect_error([&] { parse({"predict"}); }, {"needs the folder of a run"});
  test::expect_error(
      [&] {
        parse({"evaluate", run, "--graph", "p", "--lr", "1"});
      },
      {"--lr is no option of evaluate"});
  test::expect_error([&] { parse({"evaluate", "nowhere", "--graph", "p"}); }, {"nowhere: no such directory"});
}

TEST(TrainOptions, HelpAndVersionAreTexts) {
  const ParsedOptions help = parse({"--help"});
  EXPECT_FALSE(help.config.has_value());
  EXPECT_THAT(help.text, HasSubstr("FIRST HOP FIRST"));
  const ParsedOptions version = parse({"--version"});
  EXPECT_FALSE(version.config.has_value());
  EXPECT_THAT(version.text, HasSubstr("strata-train "));
  EXPECT_THAT(parse({"--version", "all"}).text, HasSubstr("HDF5"));
}

TEST(TrainOptions, ForExpertsStandInTheLongHelpOnly) {
  EXPECT_THAT(parse({"--help"}).text, testing::Not(HasSubstr("--pipeline")));
  EXPECT_THAT(parse({"--help", "all"}).text, HasSubstr("For experts"));
}

ParsedOptions parse_plan(const Arguments& arguments) {
  std::vector<const char*> argv{"strata-plan", "--graph", "parts"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  const Command command(static_cast<int>(argv.size()), argv.data(), {}, Purpose::plan);
  return command.complete(std::nullopt);
}

TEST(PlanOptions, AreThoseOfTrainingAndTheCluster) {
  const ParsedOptions here = parse_plan({"--hidden", "64"});
  EXPECT_EQ(here.config->hidden, 64);
  ASSERT_TRUE(here.plan.has_value());
  EXPECT_EQ(here.plan->cluster, "");
  EXPECT_FALSE(here.plan->json);
  const ParsedOptions there = parse_plan({"--cluster", "machines=2", "--json"});
  EXPECT_EQ(there.plan->cluster, "machines=2");
  EXPECT_TRUE(there.plan->json);
  EXPECT_FALSE(parse({"--graph", "parts"}).plan.has_value());
  test::expect_error([] { parse_plan({"--cluster", ""}); }, {"--cluster: there is nothing in it"});
}

}  // namespace
}  // namespace strata::cli
