// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/output_lock.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "strata/util/files.hpp"
#include "strata/util/types.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace strata::train {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr OutputLock::Options kQuick{
    .heartbeat = milliseconds(20), .patience = milliseconds(400), .ending = milliseconds(50)};

class Lock : public testing::Test {
 protected:
  fs::path path() const { return folder_ / OutputLock::kFile; }
  nlohmann::json owner() const { return nlohmann::json::parse(read_file(path())); }
  /// Writes the lock of a process that is not there.
  void leave(nlohmann::json changed) {
    nlohmann::json other;
    {
      const OutputLock lock(folder_.path(), kQuick);
      other = owner();
    }
    other.update(changed);
    write_file_atomically(path(), other.dump() + "\n");
  }

  test::TemporaryFolder folder_;
};

TEST_F(Lock, KeepsOthersOutAndGoesWithItsOwner) {
  {
    const OutputLock lock(folder_.path(), kQuick);
    EXPECT_EQ(owner()["pid"], ::getpid());
    lock.require();
    test::expect_error([&] { OutputLock(folder_.path(), kQuick); },
                       {folder_.path().string(), "process " + std::to_string(::getpid()), path().string()});
    lock.require();
  }
  EXPECT_TRUE(fs::is_empty(folder_.path()));
  const OutputLock again(folder_.path(), kQuick);
}

TEST_F(Lock, MakesTheFolder) {
  const OutputLock lock(folder_ / "a/b", kQuick);
  EXPECT_TRUE(fs::exists(folder_ / "a/b" / OutputLock::kFile));
}

TEST_F(Lock, OfAKilledProcessIsTakenOver) {
  const pid_t child = ::fork();
  if (child == 0) {
    new OutputLock(folder_.path(), kQuick);
    ::pause();
  }
  while (!fs::exists(path())) std::this_thread::sleep_for(milliseconds(5));
  test::expect_error([&] { OutputLock(folder_.path(), kQuick); }, {"process " + std::to_string(child)});
  ::kill(child, SIGKILL);  // a zombie until it is waited for, which is gone, too
  const OutputLock lock(folder_.path(), kQuick);
  EXPECT_EQ(owner()["pid"], ::getpid());
  ::waitpid(child, nullptr, 0);
}

TEST_F(Lock, OfAnEarlierProcessOfTheSameIdIsTakenOver) {
  leave({{"started", "1"}});
  const OutputLock lock(folder_.path(), kQuick);
  lock.require();
}

TEST_F(Lock, OfAnotherHostIsTakenOverWhenItIsSilent) {
  for (const auto& elsewhere :
       {nlohmann::json{{"boot", "another"}, {"host", "h2"}}, nlohmann::json{{"pid_namespace", "pid:[1]"}}}) {
    leave(elsewhere);
    const auto start = std::chrono::steady_clock::now();
    const OutputLock lock(folder_.path(), kQuick);
    EXPECT_GE(std::chrono::steady_clock::now() - start, kQuick.patience);
    lock.require();
  }
}

TEST_F(Lock, OfAnotherHostThatWasSilentForLongIsTakenOverAtOnce) {
  leave({{"boot", "another"}});
  fs::last_write_time(path(), fs::file_time_type::clock::now() - std::chrono::hours(1));
  OutputLock::Options patient = kQuick;
  patient.patience = std::chrono::minutes(10);
  const OutputLock lock(folder_.path(), patient);
  lock.require();
}

TEST_F(Lock, OfAnotherHostThatRenewsItIsRespected) {
  leave({{"boot", "another"}, {"host", "h2"}});
  std::atomic<bool> done = false;
  std::thread owner_there([&] {
    while (!done) {
      fs::last_write_time(path(), fs::file_time_type::clock::now());
      std::this_thread::sleep_for(kQuick.heartbeat);
    }
  });
  test::expect_error([&] { OutputLock(folder_.path(), kQuick); }, {"host h2", "folder of its own"});
  done = true;
  owner_there.join();
}

TEST_F(Lock, IsRenewedByItsOwner) {
  const OutputLock lock(folder_.path(), kQuick);
  const auto before = fs::last_write_time(path());
  for (int i = 0; i < 500 && fs::last_write_time(path()) == before; ++i)
    std::this_thread::sleep_for(milliseconds(10));
  EXPECT_GT(fs::last_write_time(path()), before);
}

TEST_F(Lock, ThatIsUnreadableIsTakenOverWhenItIsSilent) {
  write_file_atomically(path(), "");
  const OutputLock lock(folder_.path(), kQuick);
  lock.require();
}

TEST_F(Lock, OwnersThatLostItSayNothingMoreIsWritten) {
  const OutputLock lock(folder_.path(), kQuick);
  const std::string ours = read_file(path());
  write_file_atomically(path(), "{}");
  test::expect_error<Error>([&] { lock.require(); }, {"no longer this run's", path().string()});
  fs::remove(path());
  test::expect_error<Error>([&] { lock.require(); }, {"no longer this run's"});
  write_file_atomically(path(), ours);
  lock.require();
}

TEST_F(Lock, OnlyOneOfManyTakesADeadOnesOver) {
  leave({{"started", "1"}});
  constexpr int kContenders = 8;
  std::atomic<int> winners = 0, refused = 0;
  std::vector<std::unique_ptr<OutputLock>> locks(kContenders);
  std::vector<std::thread> threads;
  for (int i = 0; i < kContenders; ++i) {
    threads.emplace_back([&, i] {
      try {
        locks[at(i)] = std::make_unique<OutputLock>(folder_.path(), kQuick);
        ++winners;
      } catch (const InputError&) {
        ++refused;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(winners, 1);
  EXPECT_EQ(refused, kContenders - 1);
  for (const auto& lock : locks)
    if (lock) lock->require();
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()), 1);
}

TEST_F(Lock, ClaimsOfContendersThatWereKilledAreRemoved) {
  leave({{"started", "1"}});
  fs::rename(path(), path().string() + ".new");
  { const OutputLock lock(folder_.path(), kQuick); }
  EXPECT_TRUE(fs::is_empty(folder_.path()));

  leave({{"boot", "another"}});
  fs::rename(path(), path().string() + ".new");
  const auto start = std::chrono::steady_clock::now();
  const OutputLock lock(folder_.path(), kQuick);
  EXPECT_GE(std::chrono::steady_clock::now() - start, kQuick.patience);
}

}  // namespace
}  // namespace strata::train
