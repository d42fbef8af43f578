// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "strata/util/system.hpp"
#include "strata/util/threads.hpp"
#include "strata/util/types.hpp"
#include "support/temporary_folder.hpp"

namespace strata {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

constexpr std::int64_t kMib = std::int64_t{1} << 20;

/// A folder that looks like the root of a host whose processes see `mountinfo` and `cgroup`.
class FakeHost {
 public:
  FakeHost(const std::string& mountinfo, const std::string& cgroup, std::int64_t available_mib = 64 * 1024) {
    write("proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/root rw\n" + mountinfo);
    write("proc/self/cgroup", cgroup);
    write("proc/self/status",
          "Name:\tstrata\nCpus_allowed:\tff\nCpus_allowed_list:\t0-3,8,10-12\nThreads:\t1\n");
    write("proc/meminfo", "MemTotal:       99999999 kB\nMemFree:         1024 kB\nMemAvailable:   " +
                              std::to_string(available_mib * 1024) + " kB\n");
  }
  void write(const std::string& file, const std::string& text) {
    fs::create_directories((root() / file).parent_path());
    std::ofstream(root() / file) << text;
  }
  /// Numbers in MiB; no limit if negative.
  struct Memory {
    std::int64_t limit = -1, used = 0, active_file = 0, inactive_file = 0, shmem = 0;
  };
  void unified(const std::string& group, const Memory& memory) {
    const std::string folder = "sys/fs/cgroup/" + group + "/";
    write(folder + "memory.max", memory.limit < 0 ? "max\n" : bytes(memory.limit));
    write(folder + "memory.high", "max\n");
    write(folder + "memory.current", bytes(memory.used));
    write(folder + "memory.stat",
          "anon 0\nfile " + bytes(memory.active_file + memory.inactive_file + memory.shmem) + "shmem " +
              bytes(memory.shmem) + "inactive_anon " + bytes(memory.shmem) + "active_anon 0\ninactive_file " +
              bytes(memory.inactive_file) + "active_file " + bytes(memory.active_file));
  }
  void version1(const std::string& folder, const Memory& memory) {
    write(folder + "/memory.limit_in_bytes",
          memory.limit < 0 ? "9223372036854771712\n" : bytes(memory.limit));
    write(folder + "/memory.usage_in_bytes", bytes(memory.used));
    write(folder + "/memory.stat",
          "cache 1\ninactive_file 7\nactive_file 7\nhierarchical_memory_limit "
          "9223372036854771712\ntotal_cache " +
              bytes(memory.active_file + memory.inactive_file + memory.shmem) + "total_shmem " +
              bytes(memory.shmem) + "total_inactive_file " + bytes(memory.inactive_file) +
              "total_active_file " + bytes(memory.active_file));
  }
  const fs::path& root() const { return folder_.path(); }
  std::int64_t available_mib() const { return HostLimits(root()).free_bytes() / kMib; }

 private:
  static std::string bytes(std::int64_t mib) { return std::to_string(mib * kMib) + "\n"; }
  test::TemporaryFolder folder_;
};

const std::string kUnified =
    "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
const std::string kVersion1 =
    "30 22 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n"
    "31 30 0:27 / /sys/fs/cgroup/memory rw shared:1 master:3 - cgroup cgroup rw,memory\n"
    "32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "33 30 0:29 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n";

TEST(FreeMemory, IsThatOfTheHostWithoutGroups) {
  EXPECT_EQ(FakeHost("", "").available_mib(), 64 * 1024);
  EXPECT_EQ(FakeHost(kUnified, "0::/\n").available_mib(),
            64 * 1024);  // the root group has no files of memory
}

TEST(FreeMemory, IsTheLeastOverThePathOfGroups) {
  FakeHost host(kUnified, "0::/slurm/job_7/step_0/task_1\n");
  host.unified("slurm", {.limit = 60'000, .used = 50'000});
  host.unified("slurm/job_7", {.limit = 8'000, .used = 1'000});
  host.unified("slurm/job_7/step_0", {.limit = -1, .used = 900});
  host.unified("slurm/job_7/step_0/task_1", {.limit = 30'000, .used = 500});
  EXPECT_EQ(host.available_mib(), 7'000);
  host.unified("slurm", {.limit = 60'000, .used = 58'000});
  EXPECT_EQ(host.available_mib(), 2'000);
  host.unified("slurm/job_7/step_0/task_1", {.limit = 1'500, .used = 500});
  EXPECT_EQ(host.available_mib(), 1'000);
  host.write("proc/meminfo", "MemAvailable:   1024 kB\n");
  EXPECT_EQ(host.available_mib(), 1);
}

TEST(FreeMemory, CountsThePageCacheAsFreeButNotSharedMemory) {
  FakeHost host(kUnified, "0::/job\n");
  host.unified("job",
               {.limit = 8'000, .used = 7'900, .active_file = 2'000, .inactive_file = 3'000, .shmem = 1'500});
  EXPECT_EQ(host.available_mib(), 5'100);
  host.unified("job", {.limit = 8'000, .used = 9'000, .active_file = 10, .inactive_file = 20});
  EXPECT_EQ(host.available_mib(), 0);
  host.unified("job", {.limit = 8'000, .used = 100, .active_file = 2'000, .inactive_file = 3'000});
  EXPECT_EQ(host.available_mib(), 8'000) << "never more than the limit";
}

TEST(FreeMemory, TakesTheLimitAboveWhichAGroupIsSlowedDown) {
  FakeHost host(kUnified, "0::/job\n");
  host.unified("job", {.limit = 8'000, .used = 1'000});
  host.write("sys/fs/cgroup/job/memory.high", std::to_string(5'000 * kMib));
  EXPECT_EQ(host.available_mib(), 4'000);
}

TEST(FreeMemory, KnowsGroupsOfVersion1) {
  FakeHost host(kVersion1,
                "9:name=systemd:/other\n4:memory:/slurm/uid_0/job_3\n2:cpu,cpuacct:/slurm\n0::/\n");
  const std::string job = "sys/fs/cgroup/memory/slurm/uid_0/job_3";
  host.version1("sys/fs/cgroup/memory", {});
  host.version1("sys/fs/cgroup/memory/slurm", {});
  host.version1(job, {.limit = 4'000, .used = 3'500, .active_file = 100, .inactive_file = 900, .shmem = 700});
  EXPECT_EQ(host.available_mib(), 1'500);
  host.version1("sys/fs/cgroup/memory/slurm", {.limit = 10'000, .used = 9'500});
  EXPECT_EQ(host.available_mib(), 500);
}

TEST(FreeMemory, KnowsAVersion1LimitOfAGroupThatIsNotMounted) {
  FakeHost host(kVersion1, "4:memory:/\n");
  host.version1("sys/fs/cgroup/memory", {.used = 300});
  host.write("sys/fs/cgroup/memory/memory.stat", "hierarchical_memory_limit " + std::to_string(2'000 * kMib));
  EXPECT_EQ(host.available_mib(), 1'700);
}

// Docker without a namespace of groups: the kernel names the group from outside, and mounts it alone.
TEST(FreeMemory, FindsTheGroupOfAContainer) {
  FakeHost named("30 22 0:26 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
                 "4:memory:/docker/abc\n");
  named.version1("sys/fs/cgroup/memory", {.limit = 3'000, .used = 1'000});
  EXPECT_EQ(named.available_mib(), 2'000);
  FakeHost inner("30 22 0:26 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
                 "4:memory:/docker/abc/inner\n");
  inner.version1("sys/fs/cgroup/memory", {.limit = 3'000, .used = 1'000});
  inner.version1("sys/fs/cgroup/memory/inner", {.limit = 500, .used = 100});
  EXPECT_EQ(inner.available_mib(), 400);
  FakeHost foreign("30 22 0:26 /docker/abcdef /sys/fs/cgroup rw - cgroup2 cgroup rw\n", "0::/docker/abc\n");
  foreign.write("sys/fs/cgroup/memory.max", std::to_string(100 * kMib));
  EXPECT_EQ(foreign.available_mib(), 100) << "the mounted group is the one that holds";
  FakeHost outside(kUnified, "0::/../../neighbor\n");
  outside.write("sys/fs/cgroup/memory.max", std::to_string(100 * kMib));
  EXPECT_EQ(outside.available_mib(), 100);
}

// launch/ asks before it compiles; it must not know another memory than the programs.
TEST(FreeMemory, IsTheSameForTheScripts) {
  const auto of_scripts = [](const FakeHost& host) {
    const std::string command = "bash -c 'set -euo pipefail; source \"" STRATA_LAUNCH_LIB
                                "\"; free_memory_mib \"" +
                                host.root().string() + "\"'";
    FILE* pipe = ::popen(command.c_str(), "r");
    char line[64] = "";
    const bool told = std::fgets(line, sizeof line, pipe) != nullptr;
    return ::pclose(pipe) == 0 && told ? std::atoll(line) : -1;
  };
  FakeHost unified(kUnified, "0::/slurm/job_7/task_1\n");
  EXPECT_EQ(of_scripts(unified), 64 * 1024);
  unified.unified("slurm",
                  {.limit = 60'000, .used = 50'000, .active_file = 3, .inactive_file = 4, .shmem = 5});
  unified.unified("slurm/job_7", {.limit = 8'000, .used = 7'900, .active_file = 100, .inactive_file = 900});
  unified.unified("slurm/job_7/task_1", {.used = 500});
  EXPECT_EQ(of_scripts(unified), 1'100);
  EXPECT_EQ(unified.available_mib(), 1'100);
  FakeHost version1(kVersion1, "4:memory:/slurm/job_3\n2:cpu,cpuacct:/slurm\n0::/\n");
  version1.version1("sys/fs/cgroup/memory", {});
  version1.version1("sys/fs/cgroup/memory/slurm", {.limit = 9'000, .used = 8'000});
  version1.version1("sys/fs/cgroup/memory/slurm/job_3",
                    {.limit = 4'000, .used = 3'500, .inactive_file = 200});
  EXPECT_EQ(of_scripts(version1), 700);
  EXPECT_EQ(version1.available_mib(), 700);
}

TEST(FreeMemory, SurvivesMissingFiles) {
  FakeHost host(kUnified, "0::/job/gone\n");
  host.write("sys/fs/cgroup/job/memory.max", std::to_string(100 * kMib));  // no use, no stat
  EXPECT_EQ(host.available_mib(), 100);
  FakeHost broken("nonsense\n30 22\n31 22 0:26 / /sys/fs/cgroup rw - cgroup2\n", "nonsense\n0:\n");
  EXPECT_EQ(broken.available_mib(), 64 * 1024);
  const test::TemporaryFolder empty;
  EXPECT_EQ(HostLimits(empty.path()).free_bytes(), std::numeric_limits<std::int64_t>::max());
  EXPECT_GE(HostLimits(empty.path()).cores(), 1);
}

TEST(FreeMemory, ReadsMountPointsWithSpaces) {
  FakeHost host("30 22 0:26 / /sys/my\\040groups rw - cgroup2 cgroup2 rw\n", "0::/job\n");
  host.write("sys/my groups/job/memory.max", std::to_string(100 * kMib));
  EXPECT_EQ(host.available_mib(), 100);
}

TEST(Cores, AreThoseOfTheAffinityMask) {
  const FakeHost host("", "");
  EXPECT_THAT(HostLimits(host.root()).processors(), ElementsAre(0, 1, 2, 3, 8, 10, 11, 12));
  EXPECT_EQ(HostLimits(host.root()).cores(), 8);
}

TEST(Cores, AreLimitedByTheLeastQuotaOfThePath) {
  FakeHost host(kUnified, "0::/slice/job\n");
  host.write("sys/fs/cgroup/slice/cpu.max", "max 100000\n");
  host.write("sys/fs/cgroup/slice/job/cpu.max", "650000 100000\n");
  EXPECT_EQ(HostLimits(host.root()).cores(), 6);
  host.write("sys/fs/cgroup/slice/cpu.max", "100000 50000\n");
  EXPECT_EQ(HostLimits(host.root()).cores(), 2);
  host.write("sys/fs/cgroup/slice/cpu.max", "50000 100000\n");
  EXPECT_EQ(HostLimits(host.root()).cores(), 1);
}

TEST(Cores, AreLimitedByQuotasOfVersion1) {
  FakeHost host(kVersion1, "4:memory:/elsewhere\n2:cpu,cpuacct:/slice/job\n");
  host.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  host.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  host.write("sys/fs/cgroup/cpu,cpuacct/slice/cpu.cfs_quota_us", "300000\n");
  host.write("sys/fs/cgroup/cpu,cpuacct/slice/cpu.cfs_period_us", "100000\n");
  host.write("sys/fs/cgroup/cpu,cpuacct/slice/job/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(HostLimits(host.root()).cores(), 3);
}

TEST(Groups, HaveOneNameHoweverTheyAreMounted) {
  FakeHost host(kUnified, "0::/job/task\n");
  host.unified("job/task", {});
  const auto names = HostLimits(host.root()).groups();
  ASSERT_EQ(names.size(), 3u);  // the task, the job, the root
  host.write("proc/self/mountinfo", "30 22 0:26 /job /sys/fs/cgroup/job rw - cgroup2 cgroup2 rw\n");
  EXPECT_THAT(HostLimits(host.root()).groups(), ElementsAre(names[0], names[1]));
}

/// A real control group of memory, where this machine lets one be made. Its child is a process of its own.
class RealGroup : public testing::Test {
 protected:
  static constexpr std::int64_t kLimit = 256 * kMib;

  void SetUp() override {
    for (const char* parent : {"/sys/fs/cgroup/memory", "/sys/fs/cgroup"}) {
      folder_ = fs::path(parent) / ("strata_test_" + std::to_string(::getpid()));
      std::error_code failed;
      if (!fs::create_directory(folder_, failed)) continue;
      for (const char* file : {"memory.limit_in_bytes", "memory.max"}) {
        if (fs::exists(folder_ / file) && put(file, std::to_string(kLimit))) return;
      }
      fs::remove(folder_, failed);
    }
    folder_.clear();
    GTEST_SKIP() << "no control group of memory can be made here (not root, or a container)";
  }
  void TearDown() override {
    std::error_code failed;
    for (int i = 0; i < 100 && !folder_.empty() && fs::exists(folder_) && ::rmdir(folder_.c_str()) != 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the process is still being cleared away
  }
  bool put(const std::string& file, const std::string& text) const {
    std::ofstream out(folder_ / file);
    out << text << std::flush;
    return out.good();
  }

  struct Seen {
    std::int64_t at_first = 0, with_memory = 0, with_file = 0, with_shared = 0;
  };
  /// What a process of the group sees: with `bytes` of its own, with a file of as many, in shared memory.
  static Seen look(std::size_t bytes, const std::string& file) {
    Seen seen{.at_first = available_host_bytes()};
    std::vector<char> memory(bytes, 'x');
    seen.with_memory = available_host_bytes();
    {
      std::ofstream out(file);
      out.write(memory.data(), static_cast<std::streamsize>(memory.size()));
    }
    std::ifstream in(file);
    in.read(memory.data(), static_cast<std::streamsize>(memory.size()));
    seen.with_file = available_host_bytes();
    const int shared = ::memfd_create("strata", 0);
    if (::write(shared, memory.data(), memory.size()) == static_cast<ssize_t>(bytes))
      seen.with_shared = available_host_bytes();
    return seen;
  }
  Seen look_in_group(std::size_t bytes, const std::string& file) const {
    int ends[2];
    if (::pipe(ends) != 0) return {};
    const pid_t child = ::fork();
    if (child == 0) {
      Seen seen;
      if (put("cgroup.procs", std::to_string(::getpid()))) seen = look(bytes, file);
      ::_exit(::write(ends[1], &seen, sizeof seen) == sizeof seen ? 0 : 1);
    }
    ::close(ends[1]);
    Seen seen;
    EXPECT_EQ(::read(ends[0], &seen, sizeof seen), static_cast<ssize_t>(sizeof seen));
    ::close(ends[0]);
    ::waitpid(child, nullptr, 0);
    return seen;
  }

  fs::path folder_;
};

TEST_F(RealGroup, LimitsWhatIsFree) {
  constexpr std::int64_t kBytes = 48 * kMib, kSlack = 6 * kMib;
  const std::string file =
      "host_limits_test." + std::to_string(::getpid());  // where the tests run: on a disk
  struct statfs disk {};
  constexpr long kTmpfs = 0x01021994;
  ASSERT_EQ(::statfs(".", &disk), 0);
  if (disk.f_type == kTmpfs) GTEST_SKIP() << "the tests run in memory, where files are no page cache";
  const Seen seen = look_in_group(at(kBytes), file);
  fs::remove(file);
  EXPECT_LE(seen.at_first, kLimit);
  EXPECT_GE(seen.at_first, kLimit - 32 * kMib);
  EXPECT_NEAR(static_cast<double>(seen.with_memory), static_cast<double>(seen.at_first - kBytes), kSlack);
  EXPECT_NEAR(static_cast<double>(seen.with_file), static_cast<double>(seen.with_memory), kSlack);
  EXPECT_NEAR(static_cast<double>(seen.with_shared), static_cast<double>(seen.with_file - kBytes), kSlack);
}

}  // namespace
}  // namespace strata
