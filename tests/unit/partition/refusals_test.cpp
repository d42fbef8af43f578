// SPDX-License-Identifier: Apache-2.0
// What the program refuses before it reads or writes anything.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "run_program.hpp"
#include "strata/util/files.hpp"
#include "support/temporary_folder.hpp"

namespace strata::partition {
namespace {

namespace fs = std::filesystem;
using test::Outcome;
using test::run_shell;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Refusals : public test::ProgramTest {
 protected:
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream{folder_ / name} << text;
    return path(name);
  }
  std::string build(const std::string& rest) const {
    return "build --input " + std::string(kInput) + " --output " + path("out") + " " + rest;
  }
  /// Exit code 2, before any work.
  void expect_refused(const std::string& arguments, const std::string& message,
                      const std::string& remedy) const {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments << "\n" << outcome.output;
    EXPECT_THAT(outcome.output, AllOf(HasSubstr(message), HasSubstr(remedy), Not(HasSubstr("reading")),
                                      Not(HasSubstr("writing"))))
        << arguments;
  }
  void expect_refused_when_read(const std::string& arguments, const std::string& message,
                                const std::string& remedy) const {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments << "\n" << outcome.output;
    EXPECT_THAT(outcome.output, AllOf(HasSubstr(message), HasSubstr(remedy), Not(HasSubstr("assigning"))))
        << arguments;
  }
};

TEST_F(Refusals, NumbersAreNumbersInTheirRange) {
  const auto refuse = [&](const std::string& option, const std::string& value, const std::string& remedy) {
    expect_refused(build("--parts 2 ") + option + " " + value, option + ": ", remedy);
  };
  for (const char* const value : {"abc", "2.5"}) refuse("--parts", value, "Give an integer");
  refuse("--parts", "0", "Give at least 1.");
  refuse("--parts", "100001", "Give at most 100000.");
  for (const char* const value : {"x", "nan", "inf"}) refuse("--imbalance", value, "Give a finite decimal");
  for (const char* const value : {"-1", "0", "11"}) refuse("--imbalance", value, "from 0.001 to 10");
  for (const char* const value : {"x", "2.5"}) refuse("--clusters", value, "Give an integer");
  refuse("--clusters", "-1", "Give at least 0.");
  refuse("--seed", "-1", "Give 0 or more.");
  refuse("--seed", "99999999999999999999999", "Give at most 18446744073709551615.");
  refuse("--seed", "1.5", "Give an integer");
  EXPECT_EQ(run(build("--parts 2 --seed 18446744073709551615")).exit_code, 0);
}

TEST_F(Refusals, ValuesAreNotEmpty) {
  for (const char* const option : {"--parts", "--memory", "--report", "--labels", "--features", "--split"})
    expect_refused(build("--parts 2 ") + option + " ''", std::string(option) + ": the value is empty",
                   "leave the option out");
  expect_refused("info ''", "SPEC: the value is empty", "Give one");
}

TEST_F(Refusals, ReportsReplaceFilesOnlyAndNeitherInputNorOutput) {
  const std::string edges = write("edges.csv", "0,1\n1,2\n");
  fs::create_directory(folder_ / "folder");
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  const auto refuse = [&](const std::string& report, const std::string& why) {
    expect_refused("build --parts 1 --direction directed --input csv:" + edges + " --output " + path("out") +
                       " --report " + report,
                   why, "Choose another name");
  };
  refuse(path("folder"), "is a directory");
  refuse(path("pipe"), "is no file that can be replaced");
  refuse(path("out"), "lies in --output");
  refuse(path("out/report.html"), "lies in --output");
  refuse(path("folder/../edges.csv"), "belongs to the input");
  fs::create_directory(folder_ / "page.html.json");
  refuse(path("page.html"), "page.html.json: is a directory");
  EXPECT_TRUE(fs::is_fifo(folder_ / "pipe"));
  EXPECT_EQ(read_file(edges), "0,1\n1,2\n");
  ASSERT_EQ(run(build("--parts 2")).exit_code, 0);
  expect_refused("repartition " + path("out") + " --parts 3 --output " + path("new") + " --report " +
                     path("out/report.html"),
                 "belongs to the input", "Choose another name");
}

TEST_F(Refusals, PartsThatAreReadStayWhole) {
  ASSERT_EQ(run(build("--parts 2")).exit_code, 0);
  expect_refused("convert " + path("out") + " npy:" + path("out/arrays"), "would not be whole", "outside");
  expect_refused("repartition " + path("out") + " --parts 3 --output " + path("out/new"),
                 "would not be whole", "outside");
  EXPECT_EQ(run("verify " + path("out")).exit_code, 0);
  expect_refused("convert " + std::string(kInput) + " npy:" + path("out"), "exists and is not empty",
                 "Choose another name, or remove");
  expect_refused("convert " + std::string(kInput) + " npy:" + path("none/arrays"), "does not exist", "mkdir");
}

TEST_F(Refusals, NamesOfNodesReplaceNothingUnasked) {
  const std::string command =
      "build --parts 1 --direction directed --input csv:" + write("edges.csv", "Ann,Bob\n") +
      ",ids=string --output " + path("out");
  const std::string names = write("out.ids.txt", "mine");
  expect_refused(command, "out.ids.txt exists", "--force");
  EXPECT_EQ(read_file(names), "mine");
  EXPECT_EQ(run(command + " --force").exit_code, 0);
  EXPECT_EQ(read_file(names), "Ann\nBob\n");
  fs::remove(names);
  fs::create_directory(names);
  expect_refused(command + " --force", "it is no file", "Choose another --output");
}

TEST_F(Refusals, ValuesThatCannotBe) {
  expect_refused(build("--parts 2 --memory 1MiB"), "--memory 1MiB: less than", "Give 64MiB or more");
  expect_refused(build("--parts 2 --scratch nowhere"), "--scratch nowhere: no such directory",
                 "Name a folder");
  expect_refused(build("--parts 2 --method merge"), "--method merge is for parts", "repartition");
  expect_refused(build("--parts 2 --method file:"), "--method file:: it names no file", "file:PATH");
}

TEST_F(Refusals, OptionsWithoutEffect) {
  const std::string parts = write("parts.txt", "0\n");
  for (const std::string& method : {std::string("range"), "file:" + parts})
    expect_refused(build("--parts 2 --seed 5 --method ") + method, "--seed has no effect on", "Leave it out");
  EXPECT_EQ(run(build("--parts 2 --seed 5 --method range --clusters 2")).exit_code, 0);
  expect_refused("convert --features i8 " + std::string(kInput) + " npy:" + path("arrays"),
                 "--features i8 has no effect", "Leave it out");
  expect_refused("info --features i8 " + std::string(kInput), "--features i8 has no effect", "Leave it out");
  const std::string bare = "csv:" + write("edges.csv", "0,1\n1,2\n");
  const std::string build_bare =
      "build --parts 1 --direction directed --input " + bare + " --output " + path("bare");
  expect_refused_when_read(build_bare + " --features i8", "has no features", "Leave it out");
  expect_refused_when_read(build_bare + " --normalize-features", "has no features", "Leave it out");
}

TEST_F(Refusals, WeightsOfNodesThatAreNotThere) {
  const std::string bare = "metis:" + write("bare.graph", "2 1\n2\n1\n"),
                    weighted = "metis:" + write("weighted.graph", "2 1 10\n5 2\n5 1\n"),
                    damaged = "metis:" + write("damaged.graph", "x\n");
  const auto build = [&](const std::string& input, const std::string& output) {
    return "build --parts 2 --balance weights --input " + input + " --output " + path(output);
  };
  for (const std::string& input : {bare, std::string(kInput)})
    expect_refused(build(input, "out"), "the nodes of the input have no weights", "code is 010 or 011");
  expect_refused_when_read(build(damaged, "out"), "a header of 1 numbers", "begins with");
  const Outcome built = run(build(weighted, "parts"));
  EXPECT_EQ(built.exit_code, 0) << built.output;
  EXPECT_THAT(built.output, HasSubstr("weights 1.000"));
  expect_refused("repartition --parts 1 --balance weights " + path("parts") + " --output " + path("new"),
                 "the nodes of the input have no weights", "parts do not keep them");
}

TEST_F(Refusals, TooFewNodesAndNoneAndNoFileOfParts) {
  expect_refused_when_read(build("--parts 2 --clusters 3000"), "3000 clusters in each of 2 parts",
                           "--clusters 1000 or fewer");
  const std::string empty = write("empty.csv", "# nothing\n");
  expect_refused_when_read(
      "build --parts 2 --direction directed --input csv:" + empty + " --output " + path("none"),
      empty + " has no edges", "Check the file");
  expect_refused(build("--parts 2 --method file:nope"), "file:nope: no such file", "one part id a line");
}

TEST_F(Refusals, NameTheFieldAndTheWayOut) {
  const auto refuse = [&](const std::string& spec, const std::string& text, const std::string& message,
                          const std::string& remedy, int exit_code = 2) {
    const std::string file = write("edges.txt", text);
    const Outcome outcome = run("info " + fmt::format(fmt::runtime(spec), file));
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.output;
    EXPECT_THAT(outcome.output, AllOf(HasSubstr(message), HasSubstr(remedy))) << spec;
  };
  refuse("csv:{},source=5,target=6", "4704,4202\n", ":1: 2 columns, but column 6 is wanted", "source=");
  refuse("csv:{}", "1\n", ":1: 1 column, but column 1 is wanted, counted from 0", "separator=");
  refuse("csv:{},ids=sparse", "1,99999999999999999999\n", "is not an integer in range", "give ids=string");
  refuse("csv:{}", "Ann,Bob\nBob,Cid\n", ":2: id: 'Bob' is not an integer", "ids=string takes any text");
  refuse("mtx:{}", "%%MatrixMarket matrix coordinate pattern general\n99999999999999 99999999999999 1\n1 1\n",
         "99,999,999,999,999 nodes", "edges.txt: the number of rows", 3);
  refuse("metis:{}", "99999999999999 1\n2\n1\n", "99,999,999,999,999 nodes",
         "edges.txt: the number of nodes in its header", 3);
  refuse("metis:{} --memory 1GiB", "3 90000000000000\n2\n1 3\n2\n",
         "180,000,000,000,000 edges take 1964.5 TiB at least", "--scratch a folder on another disk");
  expect_refused("verify " + folder_.path().string(), "not a partition directory",
                 "strata-partition build wrote");
}

}  // namespace
}  // namespace strata::partition
