// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "host_path/host_workers_cpu.hpp"
#include "strata/util/system.hpp"

namespace strata::tensor {
namespace {

constexpr std::size_t kRowBytes = 20;
constexpr Count kRows = 1000;

void raise(std::uint64_t& flag, std::uint64_t value) {
  std::atomic_ref<std::uint64_t>(flag).store(value, std::memory_order_release);
}
std::uint64_t seen(std::uint64_t& flag) {
  return std::atomic_ref<std::uint64_t>(flag).load(std::memory_order_acquire);
}

/// Plays the GPU's part of jobs, and owns what GPU and threads share.
template <typename Number>
class Gpu {
 public:
  Gpu(Count most_rows, int num_slots, Count chunk_rows)
      : table_(kRows * kRowBytes),
        numbers_(at(most_rows)),
        flags_(at(3 * most_rows)),
        ring_(at(num_slots) * at(chunk_rows) * kRowBytes) {
    for (std::byte& byte : table_) byte = static_cast<std::byte>(random_());
    job_ = {.chunk_rows = chunk_rows,
            .row_bytes = kRowBytes,
            .wide = sizeof(Number) == 8,
            .numbers = numbers_.data(),
            .doorbell = &doorbell_,
            .exported = flags_.data(),
            .filled = flags_.data() + most_rows,
            .drained = flags_.data() + 2 * most_rows,
            .slots = ring_.data(),
            .slot_bytes = at(chunk_rows) * kRowBytes,
            .num_slots = num_slots};
  }

  RowSource source() const { return {.data = table_.data(), .row_bytes = kRowBytes, .row_pitch = kRowBytes}; }
  HostJob next_job() {
    ++job_.ticket;
    return job_;
  }

  /// Runs a job of `rows` rows as the kernels do, and compares what arrives.
  void run(const HostJob& job, Count rows) {
    raise(doorbell_, DoorbellWord::of(job.ticket, rows).word);
    for (Count chunk = 0; chunk < job.num_chunks(rows); ++chunk) {
      for (Count i = first_row(job, chunk); i < end_row(job, chunk, rows); ++i) {
        numbers_[at(i)] = random_() % 5 == 0 ? kNoRow<Number> : static_cast<Number>(random_() % kRows);
      }
      raise(job.exported[chunk], job.ticket);
    }
    for (Count chunk = 0; chunk < job.num_chunks(rows); ++chunk) {
      while (seen(job.filled[chunk]) != job.ticket) std::this_thread::yield();
      expect_rows(job, chunk, rows);
      std::memset(job.slot_of(chunk), 0xFB, job.slot_bytes);
      raise(job.drained[chunk], job.ticket);
    }
  }

 private:
  static Count first_row(const HostJob& job, Count chunk) { return chunk * job.chunk_rows; }
  static Count end_row(const HostJob& job, Count chunk, Count rows) {
    return std::min(first_row(job, chunk) + job.chunk_rows, rows);
  }
  void expect_rows(const HostJob& job, Count chunk, Count rows) {
    const std::byte zeros[kRowBytes] = {};
    const std::byte* slot = job.slot_of(chunk);
    for (Count i = first_row(job, chunk); i < end_row(job, chunk, rows); ++i, slot += kRowBytes) {
      const Number number = numbers_[at(i)];
      const std::byte* row = number == kNoRow<Number> ? zeros : table_.data() + number * kRowBytes;
      ASSERT_EQ(std::memcmp(slot, row, kRowBytes), 0) << "job " << job.ticket << ", row " << i;
    }
  }

  std::mt19937_64 random_{1};
  std::vector<std::byte> table_;
  std::vector<Number> numbers_;
  std::vector<std::uint64_t> flags_;
  std::vector<std::byte> ring_;
  std::uint64_t doorbell_ = 0;
  HostJob job_;
};

constexpr Count kMostRows = 5000;

/// Jobs of all sizes, up to three of them posted before the first has run.
template <typename Number>
void run_jobs(int threads) {
  SCOPED_TRACE(testing::Message() << threads << " threads");
  Gpu<Number> gpu(kMostRows, 3, 16);
  HostWorkers workers(gpu.source(),
                      {.threads = threads,
                       .processors = threads % 3 > 0 ? HostLimits().processors() : std::vector<int>{},
                       .stores = threads == 1 ? RowStores::cached : RowStores::streaming});
  EXPECT_EQ(workers.num_threads(), threads);
  constexpr Count kSizes[] = {0, 1, 15, 16, 17, 0, 48, 49, 1000, 0, 0, kMostRows};
  constexpr int kRounds = 30;
  struct Waiting {
    HostJob job;
    Count rows;
  };
  std::vector<Waiting> waiting;
  const auto run_all = [&] {
    for (const Waiting& w : waiting) gpu.run(w.job, w.rows);
    waiting.clear();
  };
  for (int round = 0; round < kRounds; ++round) {
    for (const Count rows : kSizes) {
      waiting.push_back({gpu.next_job(), rows});
      workers.post(waiting.back().job);
      if (waiting.size() > at(round % 3)) run_all();
    }
  }
  run_all();
}

TEST(HostWorkers, GatherJobAfterJob) {
  for (const int threads : {1, 2, 5}) {
    run_jobs<std::uint32_t>(threads);
    run_jobs<std::uint64_t>(threads);
  }
}

TEST(HostWorkers, LeaveJobsThatNeverRing) {
  Gpu<std::uint32_t> gpu(kMostRows, 3, 16);
  HostWorkers workers(gpu.source(), {.threads = 3});
  workers.post(gpu.next_job());
  workers.post(gpu.next_job());
}

TEST(HostWorkers, LeaveJobsWhoseRingIsNeverDrained) {
  Gpu<std::uint32_t> gpu(kMostRows, 3, 16);
  HostWorkers workers(gpu.source(), {.threads = 3});
  const HostJob job = gpu.next_job();
  workers.post(job);
  raise(*job.doorbell, DoorbellWord::of(job.ticket, kMostRows).word);
  for (Count chunk = 0; chunk < job.num_chunks(kMostRows); ++chunk) raise(job.exported[chunk], job.ticket);
  while (seen(job.filled[job.num_slots - 1]) != job.ticket) std::this_thread::yield();
}

TEST(HostWorkers, GoOnAfterACancelledJob) {
  Gpu<std::uint32_t> gpu(kMostRows, 3, 16);
  HostWorkers workers(gpu.source(), {.threads = 3});
  workers.post(gpu.next_job());
  workers.cancel_last();
  const HostJob job = gpu.next_job();
  workers.post(job);
  gpu.run(job, kMostRows);
}

TEST(DoorbellWord, TellsTheRowsOfItsJob) {
  constexpr Count kRowsOfJob = 1'234'567'890'123 / 2;
  // Tickets wrap around in the word; -1: not yet, 0: over.
  for (const std::uint64_t ticket :
       {std::uint64_t{1}, DoorbellWord::kTicketMask, DoorbellWord::kTicketMask + 1}) {
    const DoorbellWord word = DoorbellWord::of(ticket, kRowsOfJob);
    EXPECT_EQ(word.rows_of(ticket), kRowsOfJob);
    EXPECT_EQ(word.rows_of(ticket + 1), -1);
    EXPECT_EQ(word.rows_of(ticket + 1000), -1);
    EXPECT_EQ(word.rows_of(ticket - 1), 0);
  }
  EXPECT_EQ(DoorbellWord{}.rows_of(1), -1);
}

}  // namespace
}  // namespace strata::tensor
