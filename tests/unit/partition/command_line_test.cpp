// SPDX-License-Identifier: Apache-2.0
// The program itself: messages and exit codes.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "run_program.hpp"
#include "strata/util/files.hpp"
#include "strata/util/random.hpp"
#include "strata/util/types.hpp"
#include "support/small_disk.hpp"
#include "support/temporary_folder.hpp"

namespace strata::partition {
namespace {

namespace fs = std::filesystem;
using test::Outcome;
using test::run_shell;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class CommandLine : public test::ProgramTest {
 protected:
  Outcome build(const std::string& rest) const {
    return run("build --input " + std::string(kInput) + " " + rest);
  }
};

TEST_F(CommandLine, BuildsDescribesAndVerifies) {
  const Outcome built = build("--parts 3 --features bf16 --balance nodes,train --output " + out());
  ASSERT_EQ(built.exit_code, 0) << built.output;
  EXPECT_THAT(built.output,
              AllOf(HasSubstr("duplicates met / removed"), HasSubstr("edge cut"), HasSubstr("peak memory")));
  EXPECT_THAT(run("info " + out()).output,
              AllOf(HasSubstr("replication factor"), HasSubstr("8 x bf16"), HasSubstr("halo nodes")));
  EXPECT_THAT(run("info --json " + out()).output,
              AllOf(HasSubstr("\"num_parts\": 3"), HasSubstr("\"dtype\": \"bf16\"")));
  EXPECT_EQ(run("verify " + out()).exit_code, 0);
  std::ofstream{folder_ / "out/extra"} << "x";
  const Outcome verified = run("verify --json " + out());
  EXPECT_EQ(verified.exit_code, 1);
  EXPECT_THAT(verified.output, AllOf(HasSubstr("\"ok\": false"), HasSubstr("\"file\": \"extra\"")));
}

TEST_F(CommandLine, RefusesWithAHintAndExitCodeTwo) {
  const auto expect = [&](const std::string& arguments, const std::string& message) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
    EXPECT_THAT(outcome.output, HasSubstr(message)) << arguments;
  };
  const std::string input = "build --input " + std::string(kInput) + " --output " + out();
  expect("", "a command is required");
  expect("bild", "Did you mean build?");
  expect(input + " --part 2", "Did you mean --parts?");
  expect(input, "--parts is required");
  expect(input + " --parts 0", "--parts: 0 is too small");
  expect(input + " --parts 2 --method metiss", "Did you mean metis?");
  expect(input + " --parts 2 --method metis --quality strong", "--method auto and multilevel only");
  expect(input + " --parts 2 --quality best", "--quality");
  expect(input + " --parts 2 --method metis --device cuda", "--method auto and multilevel");
  expect(input + " --parts 2 --device tpu", "--device");
  expect(input + " --parts 2 --method random --balance nodes", "--method auto, multilevel and metis only");
  expect(input + " --parts 2 --balance nodes,nodes", "twice");
  expect(input + " --parts 2 --balance weight", "weight");
  expect(input + " --parts 2 --features f64", "f64");
  expect(input + " --parts 2001", "2001 parts for 2000 nodes");
  expect("build --input nothing:x --parts 2 --output " + out(), "nothing");
  expect("build --input ogb:na\xefve --parts 2 --output " + out(),
         "argument 3: byte 0xef at offset 6 is not UTF-8");
  expect("verify --json " + out() + "\xef", "is not UTF-8");
  expect("info " + folder_.path().string(), "not a partition directory");
  expect("verify " + out(), "no such directory");
  EXPECT_FALSE(fs::exists(out()));
}

TEST_F(CommandLine, RefusesADeviceThatIsNotThereBeforeItReads) {
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  const Outcome outcome = build("--parts 2 --device cuda --output " + out());
  unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("--device cuda: th"), HasSubstr("Use --device cpu"),
                                    Not(HasSubstr("reading"))));
  EXPECT_FALSE(fs::exists(out()));
}

TEST_F(CommandLine, DescribesAGraphThatIsNotPartitioned) {
  const Outcome text = run("info " + std::string(kInput));
  EXPECT_EQ(text.exit_code, 0) << text.output;
  EXPECT_THAT(text.output, AllOf(HasSubstr("largest component"), HasSubstr("node with the most in-neighbors"),
                                 HasSubstr("edges within a class"), HasSubstr("memory of training")));
  EXPECT_THAT(run("info --json " + std::string(kInput)).output, HasSubstr("\"num_nodes\": 2000"));
}

TEST_F(CommandLine, ConvertsAnyGraphToArraysThatMakeTheSameParts) {
  const std::string arrays = (folder_ / "arrays").string(), again = (folder_ / "again").string();
  ASSERT_EQ(run("convert " + std::string(kInput) + " npy:" + arrays).exit_code, 0);
  ASSERT_EQ(build("--parts 2 --output " + out()).exit_code, 0);
  ASSERT_EQ(run("convert " + out() + " npy:" + again).exit_code, 0);
  int compared = 0;
  for (const auto& entry : fs::directory_iterator(arrays)) {
    EXPECT_EQ(read_file(entry.path()), read_file(fs::path(again) / entry.path().filename())) << entry.path();
    ++compared;
  }
  EXPECT_EQ(compared, 6);  // edge_index, x, y and three splits
  const auto refuse = [&](const std::string& arguments, const std::string& message) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
    EXPECT_THAT(outcome.output, HasSubstr(message)) << arguments;
  };
  refuse("convert " + std::string(kInput) + " npy:" + arrays, "exists");
  refuse("convert " + std::string(kInput) + " ogb:" + again, "Write npy:DIR");
  refuse("convert " + std::string(kInput), "TARGET is required");
}

TEST_F(CommandLine, TakesFeaturesLabelsAndSplitsFromOtherFiles) {
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  };
  const std::string edges = "--input csv:" + write("edges.csv", "Ann,Bob\nBob,Cem\n") + ",ids=string";
  const std::string rest = " --parts 1 --method range --output " + out();
  const Outcome built =
      run("build " + edges + " --features bf16 --features " + write("x.csv", "1,2\n3,4\n5,6\n") +
          " --labels " + write("y.csv", "0\n1\n0\n") + " --split train=" + write("train.csv", "0\n1\n") +
          " --split valid=" + write("valid.csv", "2\n") + rest);
  ASSERT_EQ(built.exit_code, 0) << built.output;
  EXPECT_THAT(run("info " + out()).output,
              AllOf(HasSubstr("2 x bf16"), HasSubstr("2 / 1 / 0"), HasSubstr("2 classes")));
  EXPECT_EQ(read_file(out() + ".ids.txt"), "Ann\nBob\nCem\n");
  const auto refuse = [&](const std::string& arguments, const std::string& message) {
    const Outcome outcome = run("build --force " + edges + rest + " " + arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
    EXPECT_THAT(outcome.output, HasSubstr(message)) << arguments;
  };
  refuse("--features f64", "--features f64: neither a type nor a file");
  refuse("--features f16 --features bf16", "the second type");
  refuse("--split training=x.npy", "Give train=FILE");
  refuse("--split train=a.npy --split train=b.npy", "given twice");
  refuse("--labels none.npy", "none.npy: no such file");
}

TEST_F(CommandLine, SaysWhatItAssumesOfAnUnknownSetAndReadsOutsideItsFolderOnlyIfAllowed) {
  const auto write = [&](const std::string& name, const std::string& text) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
  };
  write("mine/raw/num-node-list.csv", "3\n");
  write("mine/raw/edge.csv", "0,1\n1,2\n");
  const std::string rest = " --parts 1 --method range --output " + out();
  const Outcome guessed = run("build --input ogb:" + (folder_ / "mine").string() + rest);
  EXPECT_EQ(guessed.exit_code, 0) << guessed.output;
  EXPECT_THAT(guessed.output,
              AllOf(HasSubstr("warn"), HasSubstr("'mine'"), HasSubstr("--direction directed")));
  write("bolt/metadata.yaml",
        "graph:\n  nodes: [{num: 3}]\n  edges: [{format: csv, path: ../mine/raw/edge.csv}]\n");
  const std::string bolt = "build --force --input graphbolt:" + (folder_ / "bolt").string() + rest;
  const Outcome refused = run(bolt);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.output, HasSubstr("--allow-outside-paths"));
  EXPECT_EQ(run(bolt + " --allow-outside-paths").exit_code, 0);
}

TEST_F(CommandLine, RepartitionsPartsWithoutTheirInput) {
  const auto digest = [&](const std::string& parts) {
    std::ifstream file(folder_ / parts / "manifest.json");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const std::size_t at = text.find("\"graph_digest\"");
    return at == text.npos ? "" : text.substr(at, 40);
  };
  const auto expect_made = [&](const std::string& words, const std::string& parts) {
    const Outcome made = run(words + " --output " + (folder_ / parts).string());
    EXPECT_EQ(made.exit_code, 0) << made.output;
    EXPECT_EQ(digest(parts), digest("four"));
    const Outcome verified = run("verify " + (folder_ / parts).string());
    EXPECT_EQ(verified.exit_code, 0) << verified.output;
  };
  expect_made("build --parts 4 --features bf16 --input " + std::string(kInput), "four");
  ASSERT_FALSE(digest("four").empty());
  const std::string repartition = "repartition " + (folder_ / "four").string();
  expect_made(repartition + " --parts 3", "three");
  expect_made(repartition + " --parts 2 --method merge", "two");
  expect_made(repartition + " --parts 8 --method split", "eight");
  expect_made("repartition " + (folder_ / "two").string() + " --parts 5 --force", "two");
  const auto refuse = [&](const std::string& words, const std::string& message) {
    const Outcome refused = run(repartition + words + " --output " + (folder_ / "none").string());
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.output, HasSubstr(message));
    EXPECT_FALSE(fs::exists(folder_ / "none"));
  };
  refuse(" --parts 3 --method merge", "4 parts cannot be merged to 3");
  refuse(" --parts 6 --method split", "4 parts cannot be split into 6");
  refuse(" --parts 6 --method spilt", "Did you mean split?");
  refuse("", "--parts is required");
}

TEST_F(CommandLine, CutsPartsIntoClustersAndKeepsThemInNewParts) {
  const auto clusters_of = [&](const std::string& parts) {
    return run("info " + (folder_ / parts).string()).output;
  };
  const auto make = [&](const std::string& words, const std::string& parts) {
    const Outcome made = run(words + " --output " + (folder_ / parts).string());
    EXPECT_EQ(made.exit_code, 0) << made.output;
    const Outcome verified = run("verify " + (folder_ / parts).string());
    EXPECT_EQ(verified.exit_code, 0) << verified.output;
    return made.output;
  };
  make("build --parts 2 --clusters 5 --input " + std::string(kInput), "two");
  EXPECT_THAT(clusters_of("two"), ContainsRegex("clusters per part +5"));
  const std::string repartition = "repartition " + (folder_ / "two").string();
  EXPECT_THAT(make(repartition + " --parts 4 --method split", "four"),
              HasSubstr("cutting the new parts into 5 clusters each"));
  EXPECT_THAT(clusters_of("four"), ContainsRegex("clusters per part +5"));
  make(repartition + " --parts 1 --method merge --clusters 3", "one");
  EXPECT_THAT(clusters_of("one"), ContainsRegex("clusters per part +3"));
  make(repartition + " --parts 3 --clusters 0", "three");
  EXPECT_THAT(clusters_of("three"), Not(HasSubstr("clusters")));
  const auto refuse = [&](const std::string& clusters, const std::string& message) {
    const Outcome refused = run("build --parts 2 --input " + std::string(kInput) + " --output " + out() +
                                " --clusters " + clusters);
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.output, HasSubstr(message));
    EXPECT_FALSE(fs::exists(out()));
  };
  refuse("1", "--clusters 1 makes no difference");
  refuse("60000", "60000 clusters in each of 2 parts for");
  refuse("-2", "--clusters");
  refuse("few", "--clusters");
}

TEST_F(CommandLine, RefusesLabelsThatMakeTooManyClasses) {
  const fs::path set = folder_ / "set";
  fs::create_directories(set / "raw");
  fs::create_directories(set / "split/random");
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream{set / name} << text;
  };
  write("raw/num-node-list.csv", "4\n");
  write("raw/edge.csv", "0,1\n1,2\n2,3\n");
  write("raw/node-feat.csv", "1\n2\n3\n4\n");
  write("raw/node-label.csv", "0\n1\n1000000000\n1\n");
  write("split/random/train.csv", "0\n1\n");
  write("split/random/valid.csv", "2\n");
  write("split/random/test.csv", "3\n");
  const std::string command = "build --parts 1 --input ogb:" + set.string() + " --output " + out();
  const Outcome refused = run(command);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.output, AllOf(HasSubstr("node 2 has label 1000000000"), HasSubstr("100,000"),
                                    HasSubstr("--max-classes 1000000001")));
  EXPECT_FALSE(fs::exists(out()));
  const Outcome built = run(command + " --max-classes 1000000001");
  EXPECT_EQ(built.exit_code, 0) << built.output;
  const std::string synthetic =
      "build --parts 1 --input synthetic:kind=sbm,nodes=200000,degree=2,classes=150000,features=1,seed=1 "
      "--output " +
      out() + "2";
  EXPECT_THAT(run(synthetic).output, HasSubstr("makes 150,000 classes; at most 100,000"));
}

TEST_F(CommandLine, WritesTheFactsOfAReportAndAPageThatNeedsNothingElse) {
  const std::string page = (folder_ / "report.html").string();
  const Outcome built = build("--parts 3 --balance nodes --output " + out() + " --report " + page);
  ASSERT_EQ(built.exit_code, 0) << built.output;
  EXPECT_THAT(read_file(page), AllOf(HasSubstr("in 3 parts</title>"),
                                     HasSubstr("nodes: the largest part has"), HasSubstr(kInput)));
  const std::string print =
      "import json, sys; f = json.load(open(sys.argv[1])); print(f['num_parts'], len(f['edges_between']), "
      "sum(f['edges_between']) == f['num_edges'], sum(f['degrees']) == f['num_nodes'], 'cpu_seconds' in "
      "f['phases'][0])";
  EXPECT_THAT(run_shell("python3 -c \"" + print + "\" " + page + ".json").output,
              HasSubstr("3 9 True True True"));
  const Outcome refused = build("--parts 3 --output " + out() + "3 --report /nowhere/r.html");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.output, HasSubstr("--report /nowhere/r.html: cannot be written"));
}

TEST_F(CommandLine, KeepsThePartsAndTheFactsWhereNoPageCanBeDrawn) {
  const std::string page = (folder_ / "report.html").string();
  const Outcome built = run_shell("STRATA_PYTHON=/nowhere/python " STRATA_PARTITION " build --input " +
                                  std::string(kInput) + " --parts 3 --output " + out() + " --report " + page);
  EXPECT_EQ(built.exit_code, 0);
  EXPECT_THAT(built.output, AllOf(HasSubstr("the parts are whole"), HasSubstr("/nowhere/python is not there"),
                                  HasSubstr("strata-report " + page + ".json draws it")));
  EXPECT_FALSE(fs::exists(page));
  EXPECT_TRUE(fs::exists(page + ".json"));
  EXPECT_EQ(run("verify " + out()).exit_code, 0);
}

TEST_F(CommandLine, SaysThatThePartsAreThereWhereTheReportIsNot) {
  const strata::test::SmallDisk disk{folder_ / "disk", "4k"};
  if (!disk.mounted()) GTEST_SKIP() << "mounting a tmpfs needs root";
  const auto build_on_disk = [&](const std::string& parts, const std::string& page) {
    return build("--parts 2 --output " + parts + " --report " + (folder_ / "disk" / page).string());
  };
  const Outcome without_page = build_on_disk(out(), "r.html");  // the facts fit, and fill the disk
  EXPECT_EQ(without_page.exit_code, 0);
  EXPECT_THAT(without_page.output,
              AllOf(HasSubstr("No space left"), HasSubstr("there is no page, but the parts are whole")));
  const Outcome without_facts = build_on_disk(out() + "2", "s.html");
  EXPECT_EQ(without_facts.exit_code, 1);
  EXPECT_THAT(without_facts.output,
              AllOf(HasSubstr("No space left"), HasSubstr("The parts in " + out() + "2 are whole"),
                    HasSubstr("Free space")));
  for (const std::string& parts : {out(), out() + "2"}) EXPECT_EQ(run("verify " + parts).exit_code, 0);
}

TEST_F(CommandLine, HelpGroupsOptionsAndShowsDefaults) {
  const Outcome help = run("build --help");
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.output,
              AllOf(HasSubstr("\nInput\n"), HasSubstr("\nPartitioning\n"), HasSubstr("\nOutput\n"),
                    HasSubstr("[0.03]"), HasSubstr("[auto]"), HasSubstr("f32 (default)"),
                    HasSubstr("build --input SPEC --parts N --output DIR [OPTION...]")));
}

TEST_F(CommandLine, DiesOfTheSignalAndLeavesNothing) {
  const pid_t child = fork();
  if (child == 0) {
    execl(STRATA_PARTITION, STRATA_PARTITION, "build", "--input",
          "synthetic:kind=sbm,nodes=200000,degree=20,classes=4,features=8,seed=1", "--parts", "8", "--output",
          out().c_str(), nullptr);
    _exit(127);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  kill(child, SIGINT);
  int status = 0;
  waitpid(child, &status, 0);
  const bool interrupted = (WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) ||
                           (WIFEXITED(status) && WEXITSTATUS(status) == 130);
  EXPECT_TRUE(interrupted) << "status " << status;
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(CommandLine, PartsAreReadableWithH5pyAndH5dump) {
  ASSERT_EQ(build("--parts 2 --features f16 --output " + out()).exit_code, 0);
  ASSERT_EQ(build("--parts 2 --features bf16 --output " + out() + "-bf16").exit_code, 0);
  if (run_shell("h5dump --version").exit_code == 0) {
    const Outcome dump = run_shell("h5dump -A " + out() + "/part-00001.h5");
    EXPECT_EQ(dump.exit_code, 0);
    EXPECT_THAT(dump.output, AllOf(HasSubstr("strata-part"), HasSubstr("\"edge_id\"")));
  }
  if (run_shell(STRATA_PYTHON " -c 'import h5py, numpy'").exit_code != 0)
    GTEST_SKIP() << "no h5py in " STRATA_PYTHON;
  const Outcome python = run_shell(STRATA_PYTHON " " STRATA_READ_PARTS " " + out() + " " + out() + "-bf16");
  EXPECT_EQ(python.exit_code, 0) << python.output;
}

}  // namespace
}  // namespace strata::partition
