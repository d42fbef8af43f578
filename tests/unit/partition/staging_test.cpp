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

#include "strata/graph/manifest_file.hpp"
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

TEST_F(Staging, LeavesADirectoryWithoutAMarkAloneUntilItIsOld) {
  const fs::path fresh = folder_ / ".out.partial-abc123", old = folder_ / ".out.partial-def456";
  for (const fs::path& directory : {fresh, old}) fs::create_directory(directory);
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::minutes(5));
  remove_leftovers(out_);
  EXPECT_THAT(entries(), testing::ElementsAre(".out.partial-abc123", "out"));
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
