// SPDX-License-Identifier: Apache-2.0
// What builds leave that are killed, or that find the disk full.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
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
using Clock = std::chrono::steady_clock;
using testing::AllOf;
using testing::HasSubstr;

class InterruptedBuild : public testing::Test {
 protected:
  /// Starts the program; its output goes to a file beside the folder of the build.
  pid_t start(std::vector<std::string> words, rlim_t most_file_bytes = RLIM_INFINITY) const {
    words.insert(words.begin(), STRATA_PARTITION);
    const pid_t child = fork();
    if (child != 0) return child;
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    if (std::freopen(log().c_str(), "w", stderr) == nullptr) _exit(126);
    if (std::freopen("/dev/null", "w", stdout) == nullptr) _exit(126);
    const struct rlimit limit { most_file_bytes, most_file_bytes };
    setrlimit(RLIMIT_FSIZE, &limit);
    execv(STRATA_PARTITION, arguments.data());
    _exit(127);
  }
  static int wait(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  /// Whether it waits for wait().
  static bool has_ended(pid_t child) {
    siginfo_t info{};
    return waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == child;
  }
  int run(const std::vector<std::string>& words, rlim_t most = RLIM_INFINITY) const {
    return wait(start(words, most));
  }

  std::string log() const { return (outside_ / "log").string(); }
  std::string out() const { return (folder_ / "out").string(); }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      found.push_back(entry.path().filename().string());
    std::ranges::sort(found);
    return found;
  }
  bool verifies() const { return run({"verify", out()}) == 0; }

  static constexpr Count kNodes = 100'000;
  /// 1.6 million edges in 25 MB, which 72 MiB of memory do not hold beside the program.
  std::string write_input() const {
    constexpr Count kEdges = 1'600'000;
    fs::create_directory(outside_ / "edges");
    std::string header =
        "{'descr': '<i8', 'fortran_order': False, 'shape': (2, " + std::to_string(kEdges) + "), }";
    header.resize(117, ' ');
    std::vector<std::int64_t> ids;
    for (Count i = 0; i < 2 * kEdges; ++i)
      ids.push_back(static_cast<std::int64_t>(mix64(static_cast<std::uint64_t>(i)) % kNodes));
    std::ofstream file{outside_ / "edges/edge_index.npy", std::ios::binary};
    file << std::string("\x93NUMPY\x01\x00\x76\x00", 10) << header << "\n";
    file.write(reinterpret_cast<const char*>(ids.data()), std::ssize(ids) * 8);
    return "npy:" + (outside_ / "edges").string();
  }

  test::TemporaryFolder folder_, outside_;
};

// 18 kills at random times of a whole build, and two in the last moments, in which it is published. Before
// each, the output is there from an earlier build; after it, the output is whole, the old one or the new one,
// and there is nothing else but a temporary folder and its mark, which the next build removes.
TEST_F(InterruptedBuild, KilledAtAnyMomentLeavesNothingButAFolderThatTheNextRunRemoves) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "a killed program tells the sanitizer nothing";
#endif
  const std::vector<std::string> build{
      "build",    "--input",   "synthetic:kind=sbm,nodes=10000,degree=10,features=64",
      "--method", "random",    "--parts",
      "40",       "--output",  out(),
      "--force",  "--threads", "2"};
  std::chrono::duration<double> whole{};
  const auto build_whole = [&] {
    const auto begin = Clock::now();
    const int code = run(build);
    whole = Clock::now() - begin;
    return code;
  };
  ASSERT_EQ(build_whole(), 0) << read_file(log());
  std::mt19937 random{7};
  std::uniform_real_distribution<double> share(0, 1);
  int left = 0;
  for (int i = 0; i < 20 || (left == 0 && i < 60); ++i) {  // a busy machine may slow down later builds
    const double moment = i < 18 || i >= 20 ? share(random) : 0.97 + 0.02 * (i - 18);
    const pid_t child = start(build);
    std::this_thread::sleep_for(whole * moment);
    kill(child, SIGKILL);
    wait(child);
    bool leftover = false, folder_left = false;  // a mark alone is removed without a word
    for (const std::string& name : names()) {
      if (name == "out") continue;
      EXPECT_TRUE(name.starts_with(".out.partial-")) << name << ", killed at " << moment;
      leftover = true;
      folder_left = folder_left || fs::is_directory(folder_ / name);
    }
    left += leftover;
    ASSERT_TRUE(fs::exists(folder_ / "out") || leftover) << "killed at " << moment;
    EXPECT_TRUE(!fs::exists(folder_ / "out") || verifies()) << "killed at " << moment;
    if (i % 5 != 4) continue;
    ASSERT_EQ(build_whole(), 0) << read_file(log());
    EXPECT_TRUE(!folder_left || read_file(log()).find("a build that was killed left it") != std::string::npos)
        << read_file(log());
    EXPECT_THAT(names(), testing::ElementsAre("out"));
    EXPECT_TRUE(verifies());
  }
  EXPECT_GT(left, 0) << "no build was killed while it wrote: choose other moments";
}

// Files may not grow beyond a limit, which is raised until the build succeeds: it ends in the temporary files
// of the edges, of the sorted lists and of contracted graphs, and in the part files.
TEST_F(InterruptedBuild, EndsCleanlyWhereverTheDiskIsFull) {
  const std::string input = write_input();
  std::vector<std::string> build{"build", "--input", input, "--parts", "2", "--output", out()};
  for (const bool on_disk : {false, true}) {
    if (on_disk) build.insert(build.end(), {"--memory", "72MiB"});
    int failures = 0;
    for (rlim_t most = 1 << 10;; most *= 8) {
      ASSERT_LT(most, rlim_t{1} << 32);
      const int code = run(build, most);
      if (code == 0) break;
      ++failures;
      EXPECT_EQ(code, 1) << most << ": " << read_file(log());
      EXPECT_THAT(read_file(log()), AllOf(HasSubstr("File too large"), HasSubstr("Free"))) << most;
      EXPECT_THAT(names(), testing::IsEmpty()) << most;
    }
    EXPECT_GT(failures, 2);
    EXPECT_TRUE(verifies());
    fs::remove_all(folder_ / "out");
  }
}

// Temporary files of edges have no names, so a kill leaves nothing of them, whatever the phase.
TEST_F(InterruptedBuild, KilledWithItsEdgesOnDiskLeavesNoTemporaryFile) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "a killed program tells the sanitizer nothing";
#endif
  const std::vector<std::string> build{"build",    "--input", write_input(), "--parts", "8",
                                       "--memory", "72MiB",   "--output",    out(),     "--force"};
  const auto begin = Clock::now();
  ASSERT_EQ(run(build), 0) << read_file(log());
  const std::chrono::duration<double> whole = Clock::now() - begin;
  std::mt19937 random{11};
  std::uniform_real_distribution<double> share(0, 1);
  for (int i = 0; i < 10; ++i) {
    const double moment = share(random);
    const pid_t child = start(build);
    std::this_thread::sleep_for(whole * moment);
    kill(child, SIGKILL);
    wait(child);
    for (const std::string& name : names())
      EXPECT_TRUE(name == "out" || name.starts_with(".out.partial-")) << name << ", killed at " << moment;
    EXPECT_TRUE(verifies()) << "killed at " << moment;
  }
  ASSERT_EQ(run(build), 0) << read_file(log());
  EXPECT_THAT(names(), testing::ElementsAre("out"));
}

// The program stands still while its input changes; only where it had ended before that is it started again.
TEST_F(InterruptedBuild, PublishesNothingWhereItsInputChangedWhileItWasRead) {
  const std::string input = write_input();
  const fs::path array = outside_ / "edges/edge_index.npy", parts = outside_ / "parts.txt";
  std::ofstream file{parts};
  for (Count node = 0; node < kNodes; ++node) file << node % 2 << "\n";
  file.close();
  struct Case {
    std::vector<std::string> options;
    fs::path changes;
  };
  for (const Case& each : {Case{{}, array}, Case{{"--memory", "72MiB"}, array},
                           Case{{"--method", "file:" + parts.string()}, parts}}) {
    std::vector<std::string> build{"build", "--input", input, "--parts", "2", "--output", out()};
    build.insert(build.end(), each.options.begin(), each.options.end());
    int code = 0;
    for (int attempt = 0; attempt < 20 && code == 0; ++attempt) {
      fs::remove_all(out());
      fs::remove(log());
      const pid_t child = start(build);
      while (!has_ended(child) &&
             (!fs::exists(log()) || read_file(log()).find("reading") == std::string::npos))
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      kill(child, SIGSTOP);
      fs::last_write_time(each.changes, fs::last_write_time(each.changes) + std::chrono::seconds(5));
      kill(child, SIGCONT);
      code = wait(child);
    }
    EXPECT_EQ(code, 2) << read_file(log());
    EXPECT_THAT(read_file(log()), HasSubstr(each.changes.filename().string() + " changed while it was read"));
    EXPECT_THAT(names(), testing::IsEmpty());
  }
}

TEST_F(InterruptedBuild, DiesOfTheSignalWithItsEdgesOnDiskAndLeavesNothing) {
  const std::string input = write_input();
  for (const int milliseconds : {100, 300, 600}) {
    const pid_t child =
        start({"build", "--input", input, "--parts", "2", "--memory", "72MiB", "--output", out()});
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    kill(child, SIGTERM);
    const int code = wait(child);
    EXPECT_THAT(code, testing::AnyOf(0, -SIGTERM, 128 + SIGTERM)) << read_file(log());
    EXPECT_TRUE(code == 0 || names().empty());
    fs::remove_all(folder_ / "out");
  }
}

}  // namespace
}  // namespace strata::partition
