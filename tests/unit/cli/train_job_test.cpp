// SPDX-License-Identifier: Apache-2.0
#include "strata/cli/train_job.hpp"

#include <ATen/Context.h>
#include <gmock/gmock.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "strata/nn/weights.hpp"
#include "strata/train/trainer.hpp"
#include "strata/util/files.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace strata::cli {
namespace {

using nlohmann::json;
using options::FileValue;
using testing::HasSubstr;

constexpr const char* kGraph =
    "synthetic:kind=sbm,nodes=3000,degree=8,features=6,classes=4,train=900,valid=300,test=300,seed=2";

FileValue list(const std::vector<std::int64_t>& values) {
  FileValue::Array entries;
  for (const std::int64_t value : values) entries.push_back({value});
  return {entries};
}

std::vector<json> parsed(const std::string& lines) {
  std::vector<json> records;
  std::istringstream stream(lines);
  for (std::string line; std::getline(stream, line);) records.push_back(json::parse(line));
  return records;
}

std::vector<double> losses(const std::vector<json>& records) {
  std::vector<double> values;
  for (const json& record : records)
    if (record["type"] == "epoch") values.push_back(record["loss"]);
  return values;
}

class Jobs : public testing::Test {
 protected:
  std::string out(const std::string& name = "run") const { return (folder_ / name).string(); }
  std::vector<NamedOption> options(std::vector<NamedOption> more = {}) const {
    std::vector<NamedOption> all{{"graph", {std::string(kGraph)}},
                                 {"fanouts", list({5, 3})},
                                 {"hidden", {std::int64_t{16}}},
                                 {"batch_size", {std::int64_t{100}}},
                                 {"epochs", {std::int64_t{2}}},
                                 {"device", {std::string("cpu")}},
                                 {"output", {out()}}};
    for (NamedOption& option : more) {
      std::erase_if(all, [&](const NamedOption& known) { return known.name == option.name; });
      all.push_back(std::move(option));
    }
    return all;
  }
  static TrainJob start(std::vector<NamedOption> options, Purpose purpose = Purpose::train) {
    return {std::move(options),
            {.caller = "strata.train",
             .ranks = comm::solo_backend(),
             .terminal = LogLevel::off,
             .purpose = purpose}};
  }

  test::TemporaryFolder folder_;
};

TEST_F(Jobs, TrainAsTheTrainerDoes) {
  const TrainJob::Outcome mine = start(options()).take();
  train::TrainConfig config;
  config.graph = graph::Source(kGraph);
  config.fanouts = {5, 3};
  config.hidden = 16;
  config.batch_size = 100;
  config.epochs = 2;
  config.topology.compute = comm::TopologyOptions::Compute::cpu;
  config.output = out("other");
  const comm::World world(comm::solo_backend());
  train::StopListener stop(train::StopListener::ByHand{});
  const train::TrainResult theirs = train::train(config, world, stop);
  EXPECT_EQ(losses(parsed(mine.records)), losses(parsed(read_file(out("other") + "/metrics.jsonl"))));
  EXPECT_EQ(losses(parsed(mine.records)).size(), 2u);
  EXPECT_EQ(mine.result.folder, out());
  EXPECT_EQ(mine.result.test.of("accuracy"), theirs.test.of("accuracy"));
  EXPECT_EQ(mine.records, read_file(out() + "/metrics.jsonl"));
}

TEST_F(Jobs, GiveTheWeightsOfTheBestModel) {
  const TrainJob::Outcome outcome = start(options()).take();
  const nn::TensorFile file = nn::read_tensors(out() + "/model.safetensors");
  ASSERT_TRUE(outcome.result.weights);
  ASSERT_EQ(outcome.result.weights->size(), file.tensors.size());
  for (std::size_t i = 0; i < file.tensors.size(); ++i) {
    const nn::NamedTensor& mine = (*outcome.result.weights)[i];
    EXPECT_EQ(mine.name, file.tensors[i].name);
    EXPECT_TRUE(mine.tensor.equal(file.tensors[i].tensor)) << mine.name;
  }
}

TEST_F(Jobs, RecordTheCall) {
  start(options({{"epochs", {std::int64_t{1}}}})).take();
  const std::string record = read_file(out() + "/config.toml");
  EXPECT_THAT(record, HasSubstr("fanouts=[5, 3], hidden=16, batch_size=100"));
  EXPECT_THAT(record, HasSubstr("hidden = 16  # strata.train"));
  EXPECT_THAT(record, HasSubstr("lr = 0.003  # default"));
}

TEST_F(Jobs, KeepAnInformativeLogWhereTheTerminalIsQuiet) {
  testing::internal::CaptureStdout();
  start(options()).take();
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_THAT(read_file(out() + "/train.log"), HasSubstr("epoch 2/2"));
  EXPECT_THAT(read_file(out() + "/train.log"), HasSubstr("model   sage: fanouts 5,3, hidden 16"));
}

TEST_F(Jobs, NameTheNearestOption) {
  const auto refused = [&](NamedOption option, const std::vector<std::string>& parts) {
    test::expect_error<InputError>([&] { start(options({std::move(option)})).take(); }, parts);
  };
  refused({"epoch", {std::int64_t{3}}}, {"strata.train() knows no option epoch", "Did you mean epochs?"});
  refused({"batch_sizes", {std::int64_t{3}}}, {"Did you mean batch_size?"});
  refused({"num_layers", {std::int64_t{3}}}, {"fanouts has one number per layer"});
  refused({"hidden", {std::string("wide")}}, {"hidden", "an integer"});
  refused({"model", {std::string("GraphSAGE")}}, {"Did you mean sage?"});
  refused({"hidden", {std::int64_t{-3}}}, {"--hidden: -3 is not positive"});
  refused({"seeds", list({0, 1})}, {"strata.train() trains once", "Call it once with each seed"});
  refused({"cluster", {std::string("machines=2")}}, {"strata.plan"});
  EXPECT_FALSE(std::filesystem::exists(out()));
}

TEST_F(Jobs, ReadAConfigurationFileBelowTheOptions) {
  write_file_atomically(folder_ / "job.toml", "[training]\nepochs = 5\nlr = 0.125\n");
  const TrainJob::Outcome outcome =
      start(options({{"config", {(folder_ / "job.toml").string()}}, {"epochs", {std::int64_t{1}}}})).take();
  EXPECT_EQ(outcome.result.epochs_done, 1);
  EXPECT_EQ(parsed(outcome.records)[0]["options"]["lr"], 0.125);
}

TEST_F(Jobs, StopWithACheckpointAndGoOnFromIt) {
  TrainJob job = start(options({{"epochs", {std::int64_t{3000}}}}));
  while (job.is_loading()) ASSERT_FALSE(job.wait_for(std::chrono::milliseconds(5)));
  job.wait_for(std::chrono::milliseconds(50));
  job.stop(SIGINT);
  const TrainJob::Outcome stopped = job.take();
  EXPECT_TRUE(stopped.result.stopped);
  EXPECT_TRUE(std::filesystem::exists(out() + "/checkpoint.safetensors"));
  const int more = stopped.result.epochs_done + 1;
  const TrainJob::Outcome resumed = start({{"resume", {out()}}, {"epochs", {std::int64_t{more}}}}).take();
  EXPECT_FALSE(resumed.result.stopped);
  EXPECT_EQ(resumed.result.epochs_done, more);
}

TEST_F(Jobs, CanFailAndBeCalledAgain) {
  for (int i = 0; i < 2; ++i) {
    test::expect_error<Error>(
        [&] {
          start(options({{"lr", {1e30}}, {"optimizer", {std::string("sgd")}}, {"overwrite", {true}}})).take();
        },
        {"not finite"});
  }
  EXPECT_FALSE(start(options({{"overwrite", {true}}})).take().result.stopped);
}

TEST_F(Jobs, GiveTorchItsSettingsBack) {
  const bool before = at::globalContext().allowTF32CuBLAS();
  at::globalContext().setAllowBF16ReductionCuBLAS(true);
  start(options({{"precision", {std::string("bf16")}}, {"epochs", {std::int64_t{1}}}})).take();
  EXPECT_EQ(at::globalContext().allowTF32CuBLAS(), before);
  EXPECT_EQ(at::globalContext().allowBF16ReductionCuBLAS(),
            at::CuBLASReductionOption::AllowReducedPrecisionWithSplitK);
}

}  // namespace
}  // namespace strata::cli
