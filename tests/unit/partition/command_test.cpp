// SPDX-License-Identifier: Apache-2.0
#include "strata/partition/command.hpp"

#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "strata/util/files.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace strata::partition {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

constexpr const char* kGraph = "synthetic:kind=sbm,nodes=2000,degree=8,features=4,classes=3,train=500,seed=3";

class CallOfCommand : public testing::Test {
 protected:
  std::string out() const { return (folder_ / "parts").string(); }
  Command build(std::vector<NamedArgument> more) const {
    std::vector<NamedArgument> options{{"input", {kGraph}}, {"output", {out()}}};
    options.insert(options.end(), more.begin(), more.end());
    return {"build", {}, options, "strata.partition"};
  }
  static CommandResult run(Command command) {
    StopFlag stop;
    return command.run(stop);
  }
  std::size_t num_entries() const {
    return at(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()));
  }

  test::TemporaryFolder folder_;
};

TEST_F(CallOfCommand, DoesWhatTheWordsOfACommandLineDo) {
  const json named = json::parse(run(build({{"parts", {"3"}},
                                            {"max_classes", {"10"}},
                                            {"balance", {"nodes", "train"}},
                                            {"force", {"false"}}}))
                                     .json);
  const std::string manifest = read_file(out() + "/manifest.json");
  const json words = json::parse(run(Command({"build", "--input", kGraph, "--output", out(), "--parts", "3",
                                              "--max-classes=10", "--balance", "nodes,train", "--force"}))
                                     .json);
  EXPECT_EQ(read_file(out() + "/manifest.json"), manifest);
  EXPECT_EQ(named["build_id"], words["build_id"]);
}

TEST_F(CallOfCommand, TellsWhatCameOfIt) {
  const json report = json::parse(run(build({{"parts", {"4"}}})).json);
  EXPECT_EQ(report["path"], out());
  EXPECT_EQ(report["num_parts"], 4);
  EXPECT_EQ(report["num_nodes"], 2000);
  EXPECT_EQ(report["parts"].size(), 4u);
  EXPECT_GT(report["cut_edges"], 0);
  EXPECT_GT(report["bytes"]["total"], 0);
  EXPECT_GE(report["constraints"][0]["balance"], 1.0);
  EXPECT_EQ(report["phases"][0]["name"], "read");
  json info = json::parse(run(Command("info", {out()}, {}, "strata.info")).json);
  for (const auto& [name, value] : info.items()) EXPECT_EQ(report[name], value) << name;
  EXPECT_TRUE(json::parse(run(Command("verify", {out()}, {}, "strata.verify")).json)["ok"]);
}

TEST_F(CallOfCommand, NamesTheNearestOption) {
  test::expect_error<InputError>(
      [&] {
        build({{"part", {"4"}}});
      },
      {"strata.partition() knows no option part", "Did you mean parts?"});
  test::expect_error<InputError>([&] { build({{"max_class", {"4"}}}); }, {"Did you mean max_classes?"});
  test::expect_error<InputError>(
      [&] {
        build({{"parts", {"4"}}, {"zebra_crossing", {"1"}}});
      },
      {"knows no option zebra_crossing", "strata-partition build --help"});
  // of the program only
  for (const char* name : {"json", "help", "log_level"})
    test::expect_error<InputError>([&] { build({{"parts", {"4"}}, {name, {"true"}}}); }, {"knows no option"});
}

TEST_F(CallOfCommand, RefusesValuesAsTheProgramDoes) {
  test::expect_error<InputError>([&] { build({{"parts", {"none"}}}); }, {"--parts"});
  test::expect_error<InputError>([&] { build({}); }, {"--parts is required"});
  test::expect_error<InputError>(
      [&] {
        build({{"parts", {"4", "5"}}});
      },
      {"strata.partition() takes one value of parts, not 2"});
  test::expect_error<InputError>(
      [&] {
        run(build({{"parts", {"4"}}, {"method", {"metix"}}}));
      },
      {"--method: there is no \"metix\"", "Did you mean metis?"});
  EXPECT_EQ(num_entries(), 0u);
}

TEST_F(CallOfCommand, TakesAPlaceThatLooksLikeAnOption) {
  test::expect_error<InputError>([&] { run(Command("verify", {"--json"}, {}, "strata.verify")); },
                                 {"--json"});
}

TEST_F(CallOfCommand, StopsWithoutLeavingAnything) {
  Command command = build({{"parts", {"4"}}});
  StopFlag stop;
  stop.request();
  EXPECT_THROW(command.run(stop), Stopped);
  EXPECT_EQ(num_entries(), 0u);
}

TEST_F(CallOfCommand, WorksOnAThreadOfItsOwn) {
  CommandJob job(build({{"parts", {"2"}}}));
  EXPECT_EQ(json::parse(job.take().json)["num_parts"], 2);
  CommandJob again(build({{"parts", {"2"}}}));
  test::expect_error<InputError>([&] { again.take(); }, {"exists", "--force"});
  EXPECT_FALSE(again.has_files());
}

TEST_F(CallOfCommand, EndsSoonAfterItIsAskedTo) {
  CommandJob job(Command("build", {},
                         {{"input", {"synthetic:kind=lognormal,nodes=300000,degree=20,features=8"}},
                          {"output", {out()}},
                          {"parts", {"64"}},
                          {"threads", {"1"}}},
                         "strata.partition"));
  job.wait_for(std::chrono::milliseconds(300));
  job.stop();
  EXPECT_THROW(job.take(), Stopped);
  EXPECT_EQ(num_entries(), 0u);
}

}  // namespace
}  // namespace strata::partition
