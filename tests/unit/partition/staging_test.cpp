// SPDX-License-Identifier: Apache-2.0
#include "output/staging.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>

#include "random_graph.hpp"
#include "strata/graph/manifest_file.hpp"
#include "strata/graph/read_graph.hpp"
#include "strata/partition/build.hpp"
#include "strata/partition/inspect.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

/// What the file system of this program cannot do, as NFS and Lustre cannot; calls of the C library come here
/// first.
struct Faults {
  bool no_exchange = false;
  int renames_until_death = -1;  ///< the process ends before its rename of this number
  int renames_until_error = -1;  ///< this one fails
  int lock_error = 0;            ///< what every flock() fails with; 0: none does
};
static Faults faults;

extern "C" int renameat2(int from_folder, const char* from, int to_folder, const char* to,
                         unsigned flags) noexcept {
  if (flags != 0 && faults.no_exchange) {
    errno = EINVAL;
    return -1;
  }
  return static_cast<int>(syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}

extern "C" int rename(const char* from, const char* to) noexcept {
  if (faults.renames_until_death >= 0 && faults.renames_until_death-- == 0) _exit(9);
  if (faults.renames_until_error >= 0 && faults.renames_until_error-- == 0) {
    errno = EIO;
    return -1;
  }
  return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}

extern "C" int flock(int descriptor, int operation) noexcept {
  if (faults.lock_error != 0) {
    errno = faults.lock_error;
    return -1;
  }
  return static_cast<int>(syscall(SYS_flock, descriptor, operation));
}

namespace strata::partition {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// A folder "out" with old parts in a file system without exchange.
class Staging : public testing::Test {
 protected:
  Staging() {
    faults = {.no_exchange = true};
    fs::create_directory(out_);
    write(out_, "old");
  }
  ~Staging() override { faults = {}; }

  static void write(const fs::path& folder, const std::string& text) {
    std::ofstream(folder / graph::kManifestFile) << text;
  }
  std::string contents() const { return read_file(out_ / graph::kManifestFile); }
  std::vector<std::string> entries() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path())) names.push_back(entry.path().filename());
    std::ranges::sort(names);
    return names;
  }
  void replace() {
    StopFlag stop;
    StagingDirectory staging(out_, {.replace = true}, stop);
    write(staging.path(), "new");
    staging.publish();
  }
  /// In a process of its own, which ends before the rename of this number.
  void replace_and_die(int rename) {
    const pid_t child = fork();
    if (child == 0) {
      faults.renames_until_death = rename;
      replace();
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_EQ(WEXITSTATUS(status), 9);
  }

  test::TemporaryFolder folder_;
  fs::path out_ = folder_ / "out";
};

TEST_F(Staging, ReplacesWhereFoldersCannotBeExchanged) {
  replace();
  EXPECT_EQ(contents(), "new");
  EXPECT_THAT(entries(), testing::ElementsAre("out"));
}

TEST_F(Staging, LeavesTheOldPartsInPlaceWhereItDiesBeforeTheFirstRename) {
  replace_and_die(0);
  EXPECT_EQ(contents(), "old");
}

TEST_F(Staging, RefusesAFolderInWhichNothingCanBeMade) {
  test::expect_error([] { refuse_output("/proc/parts", {}); }, {"the folder /proc cannot be written"});
}

TEST_F(Staging, GivesTheOldPartsTheirNameBackWhereABuildDiedBetweenTwoRenames) {
  replace_and_die(1);
  ASSERT_FALSE(fs::exists(out_));
  const fs::path aside = graph::find_set_aside(out_);
  EXPECT_EQ(read_file(aside / graph::kManifestFile), "old");
  test::expect_error([&] { graph::read_partition_record(out_); },
                     {"no such directory", aside.string(), "mv " + aside.string() + " " + out_.string()});
  test::expect_error([&] { refuse_output(out_, {}); }, {"exists", "--force"});
  EXPECT_EQ(contents(), "old");
  replace();
  EXPECT_EQ(contents(), "new");
}

TEST_F(Staging, PutsTheOldPartsBackWhereTheSecondRenameFails) {
  faults.renames_until_error = 1;
  EXPECT_THROW(replace(), IoError);
  EXPECT_EQ(contents(), "old");
  EXPECT_THAT(entries(), testing::ElementsAre("out"));
}

TEST_F(Staging, RemovesWhatAKilledBuildLeft) {
  replace_and_die(0);
  EXPECT_EQ(entries().size(), 3u);  // a directory and its mark
  replace();
  EXPECT_EQ(contents(), "new");
  EXPECT_THAT(entries(), testing::ElementsAre("out"));
}

TEST_F(Staging, LeavesTheDirectoryOfABuildThatRunsAlone) {
  StopFlag stop;
  const StagingDirectory running(out_, {.replace = true}, stop);
  replace();
  EXPECT_TRUE(fs::is_directory(running.path()));
  EXPECT_EQ(entries().size(), 3u);
}

// Locks may be local to a host (NFS with local_lock, Lustre with localflock).
TEST_F(Staging, LeavesTheDirectoryOfABuildOnAnotherHostAlone) {
  const fs::path elsewhere = folder_ / ".out.partial-abc123", mark = elsewhere.string() + ".lock";
  fs::create_directory(elsewhere);
  std::ofstream(mark) << "01234567-89ab-cdef-0123-456789abcdef another-host\n";
  remove_leftovers(out_);
  EXPECT_THAT(entries(), testing::ElementsAre(".out.partial-abc123", ".out.partial-abc123.lock", "out"));
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  std::ofstream(mark) << "01234567-89ab-cdef-0123-456789abcdef " << name << "\n";  // before it booted again
  remove_leftovers(out_);
  EXPECT_THAT(entries(), testing::ElementsAre("out"));
}

TEST_F(Staging, LeavesADirectoryWithoutAMarkAloneUntilItIsOld) {
  const fs::path fresh = folder_ / ".out.partial-abc123", old = folder_ / ".out.partial-def456";
  for (const fs::path& directory : {fresh, old}) fs::create_directory(directory);
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::minutes(5));
  remove_leftovers(out_);
  EXPECT_THAT(entries(), testing::ElementsAre(".out.partial-abc123", "out"));
}

// NFS without a lock daemon, Lustre without "-o flock", FUSE, DVS (524).
TEST_F(Staging, WritesAndReadsPartsWhereNothingCanBeLocked) {
  for (const int error : {ENOLCK, EAGAIN, EOPNOTSUPP, ENOSYS, 524}) {
    faults.lock_error = error;
    StopFlag stop;
    build(test::random_graph({.num_nodes = 50, .num_edges = 200, .labels = false}),
          {.output = out_, .assign = {.num_parts = 3}, .force = true, .num_threads = 1}, stop);
    EXPECT_THAT(verify(out_, 1), testing::IsEmpty()) << "errno " << error;
    EXPECT_EQ(graph::read_graph(out_.string()).num_nodes(), 50) << "errno " << error;
    EXPECT_THAT(entries(), testing::ElementsAre("out"));
  }
}

TEST_F(Staging, KeepsTheOldNamesOfNodesWhereNewPartsCannotBePublished) {
  const fs::path output = folder_ / "parts", names = names_file(output);
  const auto build_as = [&](const std::string& node_names, std::function<void()> before_publishing) {
    graph::Graph graph = test::random_graph({.num_nodes = 2, .num_edges = 2});
    graph.node_names = node_names;
    StopFlag stop;
    build(std::move(graph),
          {.output = output,
           .assign = {.num_parts = 1},
           .force = true,
           .num_threads = 1,
           .before_publishing = std::move(before_publishing)},
          stop);
  };
  build_as("old\nnames\n", {});
  EXPECT_EQ(read_file(names), "old\nnames\n");
  const auto appear = [&] { std::ofstream(output / "a foreign file"); };
  test::expect_error([&] { build_as("new\nnames\n", appear); }, {"a foreign file"});
  EXPECT_EQ(read_file(names), "old\nnames\n");
  EXPECT_THAT(entries(), testing::ElementsAre("out", "parts", "parts.ids.txt"));
}

TEST_F(Staging, TakesNothingForPartsThatIsHalfRemoved) {
  const fs::path aside = folder_ / ".out.partial-abc123-old";
  fs::rename(out_, aside);
  fs::remove(aside / graph::kManifestFile);
  refuse_output(out_, {});
  EXPECT_FALSE(fs::exists(out_));
}

}  // namespace
}  // namespace strata::partition
