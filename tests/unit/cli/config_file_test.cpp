// SPDX-License-Identifier: Apache-2.0
#include "strata/cli/config_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace strata::cli {
namespace {

using testing::ElementsAre;

train::TrainConfig config_of(std::string_view text) {
  return parse_config_file(text, "run.toml").settings.config;
}

void expect_refused(std::string_view text, const std::vector<std::string>& parts) {
  SCOPED_TRACE(text);
  test::expect_error<InputError>([&] { parse_config_file(text, "run.toml"); }, parts);
}

TEST(ConfigFile, IsReadAlone) {
  const train::TrainConfig config = config_of(R"(
graph = "parts"        # a comment
hidden = 1_024
heads = 0x8
fanouts = [
  4,
  -1,  # all
]
lr = 5e-1
dropout = 0            # an integer is a number
model = "gcn"
resume = true
pipeline = "off"
gpu-memory = "1.5GiB"
halo-cache = 4096
seed = 7
)");
  EXPECT_EQ(config.graph.text(), "parts");
  EXPECT_EQ(config.hidden, 1024);
  EXPECT_EQ(config.heads, std::vector{8});
  EXPECT_THAT(config.fanouts, ElementsAre(4, -1));
  EXPECT_EQ(config.learning_rate, 0.5);
  EXPECT_EQ(config.dropout, 0);
  EXPECT_EQ(config.model, nn::ModelKind::gcn);
  EXPECT_TRUE(config.resume);
  EXPECT_FALSE(config.pipeline);
  EXPECT_EQ(config.gpu_memory_bytes, std::int64_t{3} << 29);
  EXPECT_EQ(config.halo_cache_bytes, 4096);
  EXPECT_EQ(config.seed, 7u);
}

TEST(ConfigFile, GroupsOptionsInTables) {
  const train::TrainConfig config = config_of(R"(
epochs = 3
[data]
graph = "parts"
[model]
model = "gat"
[expert]
pipeline = false
[evaluation]
eval-fanouts = []
[machines]
device = "cpu"
[log]
log-level = "debug"
)");
  EXPECT_EQ(config.epochs, 3);
  EXPECT_EQ(config.graph.text(), "parts");
  EXPECT_EQ(config.model, nn::ModelKind::gat);
  EXPECT_FALSE(config.pipeline);
  EXPECT_TRUE(config.eval_fanouts.empty());
  EXPECT_EQ(config.topology.compute, comm::TopologyOptions::Compute::cpu);
  EXPECT_EQ(config.log_level, LogLevel::debug);
  EXPECT_EQ(config_of("training.epochs = 4").epochs, 4);
  EXPECT_EQ(config_of("training = {epochs = 5, lr = 1.0}").epochs, 5);
}

TEST(ConfigFile, MayBeEmpty) {
  for (const char* text : {"", "\n\n", "# nothing\n", "\xEF\xBB\xBF", "[model]\n", "\r\n"})
    EXPECT_EQ(config_of(text).epochs, train::TrainConfig().epochs) << text;
  EXPECT_EQ(config_of("\xEF\xBB\xBF"
                      "epochs = 3\n")
                .epochs,
            3)
      << "a byte order mark";
  EXPECT_EQ(config_of("epochs = 3\r\nhidden = 8\r\n").hidden, 8);
  EXPECT_EQ(config_of("epochs = 3").epochs, 3) << "no newline at the end";
}

TEST(ConfigFile, SaysWhereEachOptionStands) {
  const ConfigFile file = parse_config_file("epochs = 3\n[model]\n  hidden = 8\n", "run.toml");
  EXPECT_THAT(file.given_at,
              ElementsAre(testing::Pair("epochs", "run.toml:1:1"), testing::Pair("hidden", "run.toml:3:3")));
}

TEST(ConfigFile, RefusesValuesOfAnotherType) {
  expect_refused("epochs = []", {"run.toml:1:10", "epochs", "an array is not an integer"});
  expect_refused("hidden = \"wide\"", {"run.toml:1:10", "the string \"wide\" is not an integer"});
  expect_refused("hidden = \"48\"", {"hidden", "the string \"48\""});
  expect_refused("hidden = 48.0", {"hidden", "not an integer"});
  expect_refused("hidden = true", {"hidden", "the boolean true"});
  expect_refused("hidden = 1979-05-27", {"hidden", "a date or time"});
  expect_refused("hidden = {a = 1}", {"hidden", "a table"});
  expect_refused("\n[hidden]\n", {"run.toml:2:1", "hidden", "a table"});
  expect_refused("[[model]]\nhidden = 8\n", {"model", "an array"});
  expect_refused("lr = \"0.1\"", {"lr", "the string \"0.1\" is not a number"});
  expect_refused("model = 3", {"model", "the integer 3 is not a string"});
  expect_refused("graph = [\"a\"]", {"graph", "an array is not a string"});
  expect_refused("fanouts = 5", {"fanouts", "the integer 5", "[15, 10, 5]"});
  expect_refused("fanouts = \"15,10\"", {"fanouts", "the string \"15,10\"", "[15, 10, 5]"});
  expect_refused("fanouts = [15, 1.5]", {"fanouts[1]", "1.5 is not an integer"});
  expect_refused("fanouts = [[15]]", {"fanouts[0]", "an array"});
  expect_refused("resume = 1", {"resume", "the integer 1", "true or false"});
  expect_refused("resume = \"true\"", {"resume", "true or false"});
  expect_refused("pipeline = \"maybe\"", {"pipeline", "maybe", "on or off"});
  expect_refused("gpu-memory = -1", {"gpu-memory", "-1 is too small"});
  expect_refused("gpu-memory = \"lots\"", {"run.toml:1:14", "gpu-memory", "lots"});
  expect_refused("model = \"sgae\"", {"run.toml:1:9", "model: there is no \"sgae\"", "Did you mean sage?"});
  expect_refused("graph = \"a\\u0000b\"", {"graph", "zero byte"});
}

TEST(ConfigFile, RefusesNumbersOutOfRange) {
  expect_refused("epochs = 2147483648",
                 {"run.toml:1:10", "epochs: 2147483648 is too large", "at most 2147483647"});
  expect_refused("fanouts = [2147483648]", {"fanouts[0]", "at most 2147483647"});
  expect_refused("hidden = 9223372036854775808", {"run.toml:1:", "9223372036854775808"});
  expect_refused("seed = -1", {"seed: -1 is too small"});
  expect_refused("weight-decay = inf", {"run.toml:1:16", "weight-decay: inf is not finite"});
  expect_refused("lr = nan", {"lr: nan is not finite"});
  expect_refused("lr = -inf", {"lr: -inf is not finite"});
}

TEST(ConfigFile, RefusesWhatIsNotToml) {
  expect_refused("lr = 0.00 3", {"run.toml:1:"});
  expect_refused("\nhidden = 00012", {"run.toml:2:", "zero"});
  expect_refused("hidden = ", {"run.toml:1:"});
  expect_refused("hidden 12", {"run.toml:1:"});
  expect_refused("hidden = 12 lr = 1", {"run.toml:1:"});
  expect_refused("model = sage", {"run.toml:1:"});
  expect_refused("graph = \"open", {"run.toml:1:"});
  expect_refused("fanouts = [1, 2", {"run.toml:1:"});
  expect_refused("[model", {"run.toml:1:"});
  expect_refused("graph = \"\xff\xfe\"", {"run.toml:1:"});
  expect_refused("graph = \"caf\xe9\"\n", {"run.toml:1:"});
  expect_refused(std::string_view("h\0i\0", 4), {"run.toml:1:"});
  expect_refused(std::string(100000, '['), {"run.toml:1:"});
  expect_refused("fanouts = " + std::string(100000, '['), {"run.toml:1:"});
}

TEST(ConfigFile, RefusesUnknownKeys) {
  expect_refused("epochs = 1\nhiden = 48\n",
                 {"run.toml:2:1", "unknown option hiden", "Did you mean hidden?"});
  expect_refused("batch_size = 48", {"unknown option batch_size", "Did you mean batch-size?"});
  expect_refused("--hidden = 48", {"unknown option --hidden", "Did you mean hidden?"});
  expect_refused("learning_rate = 1.0", {"unknown option learning_rate", "--help"});
  expect_refused("config = \"other.toml\"", {"unknown option config"});
  expect_refused("help = true", {"unknown option help"});
  expect_refused("[model]\nhiden = 3", {"run.toml:2:1", "unknown option hiden", "hidden"});
  expect_refused("[modle]\nhidden = 3",
                 {"run.toml:1:", "no table [modle]", "Did you mean model?", "[training]"});
  expect_refused("[a.b]\nhidden = 3", {"no table [a]"});
  expect_refused("training = 3", {"run.toml:1:1", "training is a group of options", "[training]"});
  expect_refused("[training.lr]\nx = 1", {"lr", "a table is not a number"});
  expect_refused("\"\" = 1", {"unknown option"});
}

TEST(ConfigFile, RefusesKeysInAnotherTable) {
  expect_refused("[model]\nlr = 0.1", {"run.toml:2:1", "lr is in table [model]", "belongs in [training]"});
}

TEST(ConfigFile, RefusesKeysThatAreGivenTwice) {
  expect_refused("hidden = 8\nhidden = 9\n", {"run.toml:2:", "hidden"});
  expect_refused("hidden = 8\nhidden = 8\n", {"run.toml:2:", "hidden"});
  expect_refused("hidden = 8\n[model]\nhidden = 8\n",
                 {"run.toml:3:1", "hidden is given twice", "run.toml:1:1"});
  expect_refused("[model]\nhidden = 8\n[model]\nheads = 2\n", {"run.toml:3:"});
  expect_refused("[model]\nhidden = 8\nhidden = 9\n", {"run.toml:3:", "hidden"});
}

TEST(ConfigFile, NamesWhatReplacesAnOption) {
  expect_refused("tf32 = true", {"run.toml:1:1: unknown option tf32", "--precision tf32"});
}

TEST(ConfigFile, IsReadOrRefusedWhateverItHolds) {
  const std::string document =
      "graph = \"parts\"\nhidden = 1_024 # wide\nfanouts = [15, -1]\n[training]\nlr = 3e-3\n"
      "[model]\nmodel = 'gat'\nheads = 0x4\n";
  constexpr std::string_view kPieces[] = {"[",      "]",     "=",  "\"",  "\n",   ".",      "{",
                                          "}",      "-",     "9",  "inf", "\\u0", "\xff",   "\xEF\xBB\xBF",
                                          "hidden", "model", "[[", "0x",  "#",    "\"\"\"", ",",
                                          "e"};
  std::mt19937 random(11);
  const auto below = [&](std::size_t end) { return random() % end; };
  int read = 0;
  for (unsigned trial = 0; trial < 3000; ++trial) {
    std::string text = document;
    for (unsigned edit = 0; edit <= trial % 3; ++edit) {
      const std::size_t at = below(text.size());
      if (below(2) == 0)
        text.erase(at, 1 + below(8));
      else
        text.insert(at, kPieces[below(std::size(kPieces))]);
    }
    SCOPED_TRACE(text);
    try {
      parse_config_file(text, "run.toml");
      ++read;
    } catch (const InputError& error) {
      ASSERT_NE(std::string(error.what()).find("run.toml:"), std::string::npos) << error.what();
    }
  }
  EXPECT_GT(read, 30) << "some edits do no harm";
}

TEST(ConfigFile, IsAFileThatCanBeRead) {
  const test::TemporaryFolder folder;
  const auto refuse = [](const std::filesystem::path& path, const std::string& why) {
    test::expect_error<InputError>([&] { read_config_file(path); }, {"--config", path.string(), why});
  };
  refuse(folder / "missing.toml", "no such file");
  refuse(folder / "", "is a directory");
  std::ofstream(folder / "large.toml") << std::string(2 << 20, '\n');
  refuse(folder / "large.toml", "larger than 1 MiB");
  std::ofstream(folder / "run.toml") << "epochs = 3\n";
  const ConfigFile file = read_config_file(folder / "run.toml");
  EXPECT_EQ(file.settings.config.epochs, 3);
  EXPECT_EQ(file.given_at.at("epochs"), (folder / "run.toml").string() + ":1:1");
}

}  // namespace
}  // namespace strata::cli
