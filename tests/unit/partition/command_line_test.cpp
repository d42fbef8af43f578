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

#include "strata/util/files.hpp"
#include "strata/util/random.hpp"
#include "strata/util/types.hpp"
#include "support/temporary_folder.hpp"

namespace strata::partition {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

struct Outcome {
  int exit_code = -1;
  std::string output;
};

Outcome run_shell(const std::string& command) {
  Outcome outcome;
  std::FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  char buffer[4096];
  while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, pipe))
    outcome.output.append(buffer, got);
  outcome.exit_code = WEXITSTATUS(pclose(pipe));
  return outcome;
}

std::string npy_header(const std::string& type, Count rows, Count cols) {
  std::string text = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + std::to_string(rows) +
                     ", " + std::to_string(cols) + "), }";
  text.resize(117, ' ');
  return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + text + "\n";
}

/// Writes random edges as npy:DIR, of which every fourth pair is in a community of 1000 consecutive nodes.
void write_edges(const fs::path& folder, Count nodes, Count edges) {
  fs::create_directory(folder);
  std::ofstream file{folder / "edge_index.npy", std::ios::binary};
  file << npy_header("<i8", 2, edges);
  std::vector<std::int64_t> piece;
  for (const bool destinations : {false, true})
    for (Count first = 0; first < edges; first += 1 << 16) {
      piece.clear();
      for (Count e = first; e < std::min(first + (1 << 16), edges); ++e) {
        const auto u =
            static_cast<Count>(mix64(static_cast<std::uint64_t>(e)) % static_cast<std::uint64_t>(nodes));
        const auto v =
            static_cast<Count>(mix64(static_cast<std::uint64_t>(e) + 1) % static_cast<std::uint64_t>(nodes));
        piece.push_back(!destinations ? u : e % 4 == 0 ? v : u / 1000 * 1000 + v % 1000);
      }
      file.write(reinterpret_cast<const char*>(piece.data()), std::ssize(piece) * 8);
    }
}

/// What the child took, and its exit code.
struct Usage {
  int exit_code = -1;
  std::int64_t peak_bytes = 0;
};

Usage run_measured(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), STRATA_PARTITION);
  const pid_t child = fork();
  if (child == 0) {
    std::vector<char*> words;
    for (std::string& argument : arguments) words.push_back(argument.data());
    words.push_back(nullptr);
    execv(STRATA_PARTITION, words.data());
    _exit(127);
  }
  int status = 0;
  struct rusage usage {};
  wait4(child, &status, 0, &usage);
  return {WEXITSTATUS(status), std::int64_t{usage.ru_maxrss} * 1024};
}

class CommandLine : public testing::Test {
 protected:
  Outcome run(const std::string& arguments) const {
    return run_shell(std::string(STRATA_PARTITION) + " " + arguments);
  }
  Outcome build(const std::string& rest) const {
    return run("build --input " + std::string(kInput) + " " + rest);
  }
  std::string out() const { return (folder_ / "out").string(); }

  static constexpr const char* kInput = "synthetic:kind=sbm,nodes=2000,degree=10,classes=4,features=8,seed=1";
  test::TemporaryFolder folder_;
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
  expect("", "subcommand is required");
  expect("bild", "Did you mean build?");
  expect(input + " --part 2", "Did you mean --parts?");
  expect(input, "--parts is required");
  expect(input + " --parts 0", "not in range 1");
  expect(input + " --parts 2 --method metiss", "Did you mean metis?");
  expect(input + " --parts 2 --method metis --quality strong", "--method auto and multilevel only");
  expect(input + " --parts 2 --quality best", "--quality");
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

// A part's structure would take 100 MB.
TEST_F(CommandLine, VerifiesLargePartsInLittleMemory) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer's own memory would be counted";
#endif
  const std::string input = "synthetic:kind=rmat,nodes=20000,degree=200,classes=2,features=1,seed=1";
  const Outcome built = run("build --parts 1 --input " + input + " --output " + out());
  ASSERT_EQ(built.exit_code, 0) << built.output;
  const Usage usage = run_measured({"verify", "--threads", "1", out()});
  EXPECT_EQ(usage.exit_code, 0);
  EXPECT_GT(fs::file_size(out() + "/part-00000.h5"), 40'000'000u);
  EXPECT_LT(usage.peak_bytes, 32 << 20);
}

// The edges are three times the memory, as they lie in the file; in memory their lists would take ten times
// as much.
TEST_F(CommandLine, KeepsTheMemoryThatItWasPromised) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer's own memory would be counted";
#endif
  write_edges(folder_ / "edges", 100'000, 20'000'000);
  constexpr Count kCols = 256;  // of zeros: 102 MB
  std::ofstream{folder_ / "edges/x.npy", std::ios::binary} << npy_header("<f4", 100'000, kCols);
  fs::resize_file(folder_ / "edges/x.npy", 128 + 100'000 * kCols * 4);
  const std::string input = "npy:" + (folder_ / "edges").string();
  const Usage usage =
      run_measured({"build", "--input", input, "--parts", "8", "--memory", "96MiB", "--output", out()});
  EXPECT_EQ(usage.exit_code, 0);
  EXPECT_LT(usage.peak_bytes, 96 << 20);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 2) << "a temporary file is left";
  EXPECT_EQ(run("verify " + out()).exit_code, 0);
  const Outcome refused = run("build --parts 8 --memory 64MiB --input " + input + " --output " + out() + "2");
  EXPECT_EQ(refused.exit_code, 3) << refused.output;
  EXPECT_THAT(refused.output, AllOf(HasSubstr("bytes each"), HasSubstr("Give --memory")));
}

// The lists would take twice the memory, and the features nearly as much as it.
TEST_F(CommandLine, KeepsThePromiseWithPartsAndInEveryCommand) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer's own memory would be counted";
#endif
  write_edges(folder_ / "edges", 100'000, 3'000'000);
  constexpr Count kCols = 200;
  std::ofstream{folder_ / "edges/x.npy", std::ios::binary} << npy_header("<f4", 100'000, kCols);
  fs::resize_file(folder_ / "edges/x.npy", 128 + 100'000 * kCols * 4);
  const std::string input = "npy:" + (folder_ / "edges").string();
  const auto path = [&](const std::string& name) { return (folder_ / name).string(); };
  const auto digest = [&](const std::string& parts) {
    const std::string text = run("info --json " + path(parts)).output;
    return text.substr(text.find("graph_digest"), 40);
  };
  const auto keeps = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--memory", "88MiB", "--threads", "2"});
    const Usage usage = run_measured(words);
    EXPECT_EQ(usage.exit_code, 0) << words[0];
    EXPECT_LT(usage.peak_bytes, 88 << 20) << words[0];
  };
  keeps({"build", "--input", input, "--parts", "4", "--clusters", "3", "--output", path("four")});
  EXPECT_EQ(run("verify " + path("four")).exit_code, 0);
  const auto expect_new_parts = [&](const std::string& method, const std::string& parts) {
    keeps({"repartition", path("four"), "--method", method, "--parts", parts, "--output", path(method)});
    EXPECT_EQ(run("verify " + path(method)).exit_code, 0);
    EXPECT_EQ(digest(method), digest("four")) << method;
  };
  expect_new_parts("auto", "3");
  expect_new_parts("merge", "2");
  expect_new_parts("split", "8");
  keeps({"convert", path("four"), "npy:" + path("written")});
  EXPECT_EQ(run("convert " + path("four") + " npy:" + path("in-memory")).exit_code, 0);
  for (const char* const name : {"edge_index.npy", "x.npy"})
    EXPECT_EQ(read_file(folder_ / "written" / name), read_file(folder_ / "in-memory" / name)) << name;
  keeps({"info", input});
  EXPECT_EQ(run("info --memory 88MiB --log-level warn " + input + " 2>/dev/null").output,
            run("info --log-level warn " + input + " 2>/dev/null").output);
  for (const std::string& command : {"info " + input, "convert " + input + " npy:" + path("none"),
                                     "repartition " + path("four") + " --parts 2 --output " + path("none")}) {
    const Outcome refused = run(command + " --memory 64MiB");
    EXPECT_EQ(refused.exit_code, 3) << refused.output;
    EXPECT_THAT(refused.output, AllOf(HasSubstr("64.0 MiB may be used"), HasSubstr("Give --memory")));
    EXPECT_FALSE(fs::exists(folder_ / "none"));
  }
}

TEST_F(CommandLine, ReportsAsAPageThatNeedsNothingElse) {
  const std::string page = (folder_ / "report.html").string();
  const Outcome built = build("--parts 3 --balance nodes --output " + out() + " --report " + page);
  ASSERT_EQ(built.exit_code, 0) << built.output;
  const std::string html = read_file(page);
  EXPECT_THAT(html, AllOf(HasSubstr("in 3 parts</title>"), HasSubstr("nodes: the largest part has"),
                          HasSubstr("from part 0 to part 2: "), HasSubstr("part 2: 6"),
                          HasSubstr("in-neighbors"), HasSubstr("<td>assign</td>"), HasSubstr(kInput)));
  for (const char* const outside : {"<script", "href=", "src=", "url("})
    EXPECT_EQ(html.find(outside), html.npos);
  EXPECT_EQ(html.find("<p class=\"bad\""), html.npos);
  const std::string parse = " -c \"import sys, xml.etree.ElementTree as E; E.parse(sys.argv[1])\" ";
  EXPECT_EQ(run_shell("python3" + parse + page).exit_code, 0);

  std::ofstream lines{folder_ / "bad.txt"};
  for (int v = 0; v < 2000; ++v) lines << (v < 1500 ? 0 : v % 2 + 1) << "\n";
  lines.close();
  ASSERT_EQ(build("--parts 3 --output " + out() + "2 --method file:" + (folder_ / "bad.txt").string() +
                  " --report " + page)
                .exit_code,
            0);
  EXPECT_THAT(read_file(page), HasSubstr("nodes: the largest part has 2.250 times the mean"));
  const Outcome refused = build("--parts 3 --output " + out() + "3 --report /nowhere/r.html");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.output, HasSubstr("--report /nowhere/r.html: cannot be written"));
}

TEST_F(CommandLine, HelpGroupsOptionsAndShowsDefaults) {
  const Outcome help = run("build --help");
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.output, AllOf(HasSubstr("Input:"), HasSubstr("Partitioning:"), HasSubstr("Output:"),
                                 HasSubstr("=0.03"), HasSubstr("=auto"), HasSubstr("f32 (default)")));
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
