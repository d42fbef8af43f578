// SPDX-License-Identifier: Apache-2.0
#include "strata/util/files.hpp"

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <iterator>

#include "strata/util/error.hpp"
#include "strata/util/log.hpp"
#include "strata/util/system.hpp"
#include "support/temporary_folder.hpp"

namespace strata {
namespace {

namespace fs = std::filesystem;

std::ptrdiff_t entries_of(const fs::path& folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

void expect_io_error(const std::function<void()>& action, const std::string& part) {
  try {
    action();
    ADD_FAILURE() << "nothing was thrown; expected: " << part;
  } catch (const IoError& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(WriteFileAtomically, ReplacesTheContentsAndLeavesNothingElse) {
  const test::TemporaryFolder folder;
  const fs::path path = folder / "file";
  const std::string binary("a\0b\xff\n", 5), large(std::size_t{3} << 20, 'x');
  for (const std::string& contents : {binary, large, std::string(), std::string("short")}) {
    write_file_atomically(path, contents);
    EXPECT_EQ(read_file(path), contents);
    EXPECT_EQ(entries_of(folder.path()), 1);
  }
}

TEST(FileRemedy, NamesTheLimitThatWasMet) {
  EXPECT_NE(file_remedy(EMFILE).find("ulimit -n"), std::string::npos);
  EXPECT_NE(file_remedy(EFBIG).find("ulimit -f"), std::string::npos);
  EXPECT_NE(file_remedy(EDQUOT).find("Free space"), std::string::npos);
  EXPECT_EQ(file_remedy(EACCES, "otherwise"), "otherwise");
}

/// The exit code of a child process, or minus its signal.
int code_of_child(const std::function<int()>& work) {
  const pid_t child = fork();
  if (child == 0) _exit(work());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(PrepareProcess, MakesAFileThatGrowsTooLargeAnError) {
  const test::TemporaryFolder folder;
  const int code = code_of_child([&] {
    const rlimit most{.rlim_cur = 100, .rlim_max = 100};
    setrlimit(RLIMIT_FSIZE, &most);
    prepare_process();
    try {
      write_file_atomically(folder / "file", std::string(1000, 'x'));
    } catch (const IoError& error) {
      return error.remedy().find("ulimit -f") != std::string::npos ? 3 : 4;
    }
    return 5;
  });
  EXPECT_EQ(code, 3);
}

TEST(PrepareProcess, AllowsAsManyFilesAsTheHardLimit) {
  const int code = code_of_child([] {
    const rlimit few{.rlim_cur = 20, .rlim_max = 50};
    setrlimit(RLIMIT_NOFILE, &few);
    prepare_process();
    rlimit now{};
    getrlimit(RLIMIT_NOFILE, &now);
    return static_cast<int>(now.rlim_cur);
  });
  EXPECT_EQ(code, 50);
}

TEST(LogFile, WarnsOnceWhereItCannotBeWritten) {
  init_log("", LogLevel::info);
  testing::internal::CaptureStderr();
  {
    const LogFile log("/dev/full");
    for (int i = 0; i < 3; ++i) spdlog::info("line {}", i);
  }
  const std::string told = testing::internal::GetCapturedStderr();
  const std::string warning = "/dev/full misses lines: No space left on device";
  const std::size_t first = told.find(warning);
  ASSERT_NE(first, std::string::npos) << told;
  EXPECT_EQ(told.find(warning, first + 1), std::string::npos) << told;
}

TEST(WriteFileAtomically, LeavesTheOldContentsAndNoTemporaryWhenItFails) {
  const test::TemporaryFolder folder;
  const fs::path path = folder / "taken";
  fs::create_directories(path / "inside");  // a folder cannot be replaced by a file
  expect_io_error([&] { write_file_atomically(path, "new"); }, path.string());
  EXPECT_TRUE(fs::exists(path / "inside"));
  EXPECT_EQ(entries_of(folder.path()), 1);
}

TEST(WriteFileAtomically, NamesAFolderThatIsMissing) {
  const test::TemporaryFolder folder;
  expect_io_error([&] { write_file_atomically(folder / "missing/file", "new"); }, "missing/file");
}

TEST(WriteFileAtomically, SaysThatTheDiskIsFull) {
  const test::TemporaryFolder folder;
  if (::mount("none", folder.path().c_str(), "tmpfs", 0, "size=1m") != 0)
    GTEST_SKIP() << "no right to mount a small disk";
  write_file_atomically(folder / "file", "old");
  try {
    write_file_atomically(folder / "file", std::string(std::size_t{2} << 20, 'x'));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const IoError& error) {
    EXPECT_NE(std::string(error.what()).find("No space left"), std::string::npos) << error.what();
    EXPECT_NE(error.remedy().find("Free space"), std::string::npos) << error.remedy();
  }
  EXPECT_EQ(read_file(folder / "file"), "old");
  EXPECT_EQ(entries_of(folder.path()), 1);
  ::umount(folder.path().c_str());
}

TEST(WriteFileAtomically, NeverWritesThroughALinkThatHasTheNameOfItsTemporary) {
  const test::TemporaryFolder folder;
  write_file_atomically(folder / "somebody's", "precious");
  fs::create_symlink(folder / "somebody's", folder / ("file.tmp" + std::to_string(::getpid())));
  write_file_atomically(folder / "file", "new");
  EXPECT_EQ(read_file(folder / "somebody's"), "precious");
  EXPECT_EQ(read_file(folder / "file"), "new");
  EXPECT_EQ(entries_of(folder.path()), 2);
}

TEST(WriteFileAtomically, KeepsTheOldFileUnderAnotherName) {
  const test::TemporaryFolder folder;
  const fs::path path = folder / "file", old = folder / "file.old";
  const WriteOptions options{.read_back = true, .keep_old_as = old};
  write_file_atomically(path, "1", options);
  EXPECT_FALSE(fs::exists(old));
  for (const std::string contents : {"2", "3"}) {
    const std::string before = read_file(path);
    write_file_atomically(path, contents, options);
    EXPECT_EQ(read_file(path), contents);
    EXPECT_EQ(read_file(old), before);
    EXPECT_EQ(entries_of(folder.path()), 2);
  }
}

TEST(RemoveTemporaries, RemovesThoseOfOneFileOnly) {
  const test::TemporaryFolder folder;
  for (const char* name : {"file.tmp1", "file.tmp4194304", "file.tmp", "file.tmp1x", "other.tmp1", "file"})
    write_file_atomically(folder / name, "x");
  remove_temporaries_of(folder / "file");
  for (const char* name : {"file.tmp", "file.tmp1x", "other.tmp1", "file"})
    EXPECT_TRUE(fs::exists(folder / name)) << name;
  EXPECT_EQ(entries_of(folder.path()), 4);
  remove_temporaries_of(folder / "missing/file");
}

TEST(MakeTemporary, OpensNothingThatIsThere) {
  const test::TemporaryFolder folder;
  const fs::path first = make_temporary_beside(folder / "file"),
                 second = make_temporary_beside(folder / "file");
  EXPECT_NE(first, second);
  EXPECT_TRUE(first.filename().string().starts_with("file.tmp-"));
  EXPECT_EQ(fs::file_size(first), 0u);
  EXPECT_EQ(fs::status(first).permissions() & ~fs::perms(0644), fs::perms::none);
  expect_io_error([&] { make_temporary_beside(folder / "missing/file"); }, "missing/file");
}

TEST(CanWriteFile, TellsWithoutTouchingWhatIsThere) {
  const test::TemporaryFolder folder;
  for (const char* name : {"file", "file.probe", "file.tmp"}) write_file_atomically(folder / name, name);
  EXPECT_TRUE(can_write_file(folder / "file"));
  EXPECT_TRUE(can_write_file(folder / "new"));
  EXPECT_FALSE(can_write_file(folder.path()));
  EXPECT_FALSE(can_write_file(folder / "missing/file"));
  EXPECT_EQ(entries_of(folder.path()), 3);
  for (const char* name : {"file", "file.probe", "file.tmp"}) EXPECT_EQ(read_file(folder / name), name);
}

TEST(ReadFile, NamesWhatCannotBeRead) {
  const test::TemporaryFolder folder;
  expect_io_error([&] { read_file(folder / "missing"); }, "missing");
  expect_io_error([&] { read_file(folder.path()); }, folder.path().string());
}

TEST(FreeDiskBytes, AreKnown) {
  const test::TemporaryFolder folder;
  EXPECT_GT(free_disk_bytes(folder.path()), 0);
  expect_io_error([&] { free_disk_bytes(folder / "missing"); }, "missing");
}

}  // namespace
}  // namespace strata
