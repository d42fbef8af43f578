// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>

#include "strata/tensor/host_array.hpp"
#include "strata/util/error.hpp"
#include "support/run_setup.hpp"

namespace strata::tensor {
namespace {

using test::RunSetup;
using testing::HasSubstr;

std::set<std::string> shared_names() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    if (entry.path().filename().string().starts_with("strata-")) names.insert(entry.path().filename());
  }
  return names;
}

std::span<std::int32_t> numbers(const HostRegion& region) {
  return {reinterpret_cast<std::int32_t*>(region.data()), region.bytes() / sizeof(std::int32_t)};
}

/// With memory that has no name, and with names in /dev/shm.
class HostRegionTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { ::setenv("STRATA_SHARED_MEMORY", GetParam(), 1); }
  void TearDown() override { ::unsetenv("STRATA_SHARED_MEMORY"); }
  static bool named() { return std::string(GetParam()) == "named"; }
};

TEST_P(HostRegionTest, IsZeroAndSharedByTheRanksOfAMachine) {
  const RunSetup run(0);
  const HostRegion region = HostRegion::create(run.machine, 1'000'000, "numbers");
  ASSERT_EQ(region.bytes(), 1'000'000u);
  const auto all = numbers(region);
  EXPECT_TRUE(std::ranges::all_of(all, [](int v) { return v == 0; }));
  run.machine.barrier();
  const auto size = static_cast<std::size_t>(run.machine.size());
  for (std::size_t i = static_cast<std::size_t>(run.machine.rank()); i < all.size(); i += size)
    all[i] = static_cast<int>(i);
  run.machine.barrier();
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], static_cast<int>(i));
}

TEST_P(HostRegionTest, BelongsToOneVirtualMachineAlone) {
  const RunSetup run(1);
  const HostRegion region = HostRegion::create(run.machine, 4096, "numbers");
  numbers(region)[0] = run.machine.index() + 1;
  test::world().communicator().barrier();
  EXPECT_EQ(numbers(region)[0], run.machine.index() + 1);
}

TEST_P(HostRegionTest, LeavesNoName) {
  const RunSetup run(0);
  run.machine.barrier();
  const auto before = shared_names();
  run.machine.barrier();
  const HostRegion region = HostRegion::create(run.machine, 1 << 20, "numbers");
  run.machine.barrier();
  const auto after = shared_names();
  EXPECT_TRUE(std::ranges::includes(before, after));
}

TEST_P(HostRegionTest, LiesWhereItWasAskedFor) {
  const RunSetup run(0);
  if (run.machine.size() == 1) GTEST_SKIP() << "a rank alone shares nothing";
  const HostRegion region = HostRegion::create(run.machine, 1 << 20, "numbers");
  std::ifstream maps("/proc/self/maps");
  const std::string all{std::istreambuf_iterator<char>(maps), {}};
  EXPECT_EQ(all.find("/dev/shm/strata-") != std::string::npos, named());
  EXPECT_EQ(all.find("/memfd:strata") != std::string::npos, !named());
}

TEST_P(HostRegionTest, IsFilledInPlaceOrFromStaging) {
  const RunSetup run(0);
  const HostRegion region = HostRegion::create(run.machine, 1'000'003, "bytes");
  const auto size = static_cast<std::size_t>(run.machine.size());
  constexpr std::size_t kPiece = 4099;
  const auto value = [](std::size_t at) { return static_cast<std::byte>(at * 7 + at / 251); };
  for (std::size_t piece = static_cast<std::size_t>(run.machine.rank()); piece * kPiece < region.bytes();
       piece += size) {
    const std::size_t begin = piece * kPiece;
    std::vector<std::byte> staging(std::min(kPiece, region.bytes() - begin), std::byte{0xEE});
    region.fill(begin, staging, [&](std::byte* target) {
      for (std::size_t i = 0; i < staging.size(); ++i) target[i] = value(begin + i);
    });
  }
  run.machine.barrier();
  for (std::size_t i = 0; i < region.bytes(); ++i) ASSERT_EQ(region.data()[i], value(i)) << "byte " << i;
  run.machine.barrier();
}

TEST_P(HostRegionTest, RemovesTheFilesOfKilledRanksAndNoOthers) {
  const RunSetup run(0);
  const std::string first = run.machine.communicator().all_gather(std::to_string(::getpid())).front();
  const std::string name = "/dev/shm/strata-" + first + "-";
  const std::filesystem::path abandoned = name + "0123456789abcdef", held = name + "0123456789abcde0",
                              filled = name + "0123456789abcde1";
  // What users call their files.
  const std::vector<std::filesystem::path> others{
      "/dev/shm/strata-" + first + ".npy", name + "my-data.npy", name + "0123456789ABCDEF",
      name + "0123456789abcdef.npy",       name + "0123",        "/dev/shm/strata-a-0123456789abcdef"};
  int fd = -1;
  if (run.machine.rank() == 0) {
    for (const auto& path : {abandoned, held}) std::ofstream{path};
    std::ofstream{filled} << "data";
    for (const auto& path : others) std::ofstream{path};
    fd = ::open(held.c_str(), O_RDWR);
    ASSERT_EQ(::flock(fd, LOCK_EX), 0);
  }
  run.machine.barrier();
  const HostRegion region = HostRegion::create(run.machine, 4096, "numbers");
  EXPECT_EQ(std::filesystem::exists(abandoned), !named() || run.machine.size() == 1);
  EXPECT_TRUE(std::filesystem::exists(held));
  EXPECT_TRUE(std::filesystem::exists(filled));
  for (const auto& path : others) EXPECT_TRUE(std::filesystem::exists(path)) << path;
  run.machine.barrier();
  if (run.machine.rank() > 0) return;
  ::close(fd);
  for (const auto& path : {held, abandoned, filled}) std::filesystem::remove(path);
  for (const auto& path : others) std::filesystem::remove(path);
}

TEST_P(HostRegionTest, MayBeEmpty) {
  const RunSetup run(0);
  EXPECT_EQ(HostRegion::create(run.machine, 0, "nothing").bytes(), 0u);
}

TEST_P(HostRegionTest, RefusesWhatIsTooLargeOnAllRanks) {
  const RunSetup run(0);
  try {
    HostRegion::create(run.machine, std::size_t{1} << 50, "numbers");
    FAIL() << "accepted";
  } catch (const OutOfMemory& error) {
    EXPECT_THAT(error.what(), HasSubstr("no room for numbers"));
    EXPECT_THAT(error.what(), HasSubstr("wanted 1024.0 TiB, free "));
    EXPECT_FALSE(error.remedy().empty());
  }
}

/// Files of this process under all low numbers that are free, so that /proc/PID/fd/N of another process with
/// this one's number is one of them.
class Decoys {
 public:
  Decoys() : file_(::memfd_create("decoy", MFD_CLOEXEC)) {
    constexpr int kLowest = 256;
    for (int fd = 0; fd < kLowest; ++fd) {
      if (::fcntl(fd, F_GETFD) < 0 && ::dup2(file_, fd) == fd) copies_.push_back(fd);
    }
  }
  ~Decoys() {
    for (const int fd : copies_) ::close(fd);
    ::close(file_);
  }
  Decoys(const Decoys&) = delete;
  Decoys& operator=(const Decoys&) = delete;

 private:
  int file_;
  std::vector<int> copies_;
};

// Run with a PID namespace per rank by pid_namespaces.sh.
TEST(OtherPidNamespaces, DoNotMistakeOneFileForAnother) {
  if (std::getenv("STRATA_PID_NAMESPACES") == nullptr) GTEST_SKIP() << "needs a PID namespace per rank";
  const RunSetup run(0);
  const std::vector<std::string> pids = run.machine.communicator().all_gather(std::to_string(::getpid()));
  ASSERT_EQ(std::set(pids.begin(), pids.end()).size(), 1u) << "the ranks do not have the same number";
  std::optional<Decoys> decoys;
  if (run.machine.rank() > 0) decoys.emplace();
  const HostRegion region = HostRegion::create(run.machine, 1 << 20, "numbers");
  if (run.machine.rank() == 0) std::ranges::fill(numbers(region), 42);
  run.machine.barrier();
  EXPECT_EQ(numbers(region).front(), 42);
  EXPECT_EQ(numbers(region).back(), 42);
  run.machine.barrier();
}

INSTANTIATE_TEST_SUITE_P(Memory, HostRegionTest, testing::Values("nameless", "named"));

}  // namespace
}  // namespace strata::tensor
