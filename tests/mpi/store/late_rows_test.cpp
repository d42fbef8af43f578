// SPDX-License-Identifier: Apache-2.0
#include "load/late_rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <limits>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>

#include "load/row_flags.hpp"
#include "strata/util/error.hpp"
#include "support/run_setup.hpp"

namespace strata::store {
namespace {

using enum tensor::Stratum;

using test::RunSetup;

constexpr Count kCols = 5;

float element(Count row, Count col) { return static_cast<float>(row * kCols + col); }

void write_expected(Count first, Count count, std::byte* out) {
  auto* values = reinterpret_cast<float*>(out);
  for (Count i = 0; i < count * kCols; ++i) values[i] = element(first + i / kCols, i % kCols);
}

FeatureSource source_of(std::function<void(Count, Count, std::byte*)> read) {
  return {.read = std::move(read), .describe = [](Count row) { return "row " + std::to_string(row); }};
}

/// A table whose first rows are there.
struct Table {
  Count rows, hot;
  RunSetup run{0};
  tensor::ChunkTensor tensor;

  Table(Count num_rows, Count num_hot, const RowCode& code = {})
      : rows(num_rows),
        hot(num_hot),
        tensor(tensor::ChunkTensor::create(run.machine,
                                           {.name = "late",
                                            .rows = rows,
                                            .cols = kCols,
                                            .dtype = code ? DType::u8 : DType::f32,
                                            .code = code},
                                           tensor::Placement::on_host(rows))) {
    if (run.machine.rank() == 0)
      for (Count row = 0; row < hot; ++row) tensor.write_rows(row, 1, expected_row(row).data());
    run.machine.barrier();
  }

  /// As the tensor has it.
  std::vector<std::byte> expected_row(Count row) const {
    std::vector<float> values(kCols);
    write_expected(row, 1, reinterpret_cast<std::byte*>(values.data()));
    std::vector<std::byte> bytes(tensor.spec().row_bytes());
    if (tensor.spec().code)
      tensor.spec().code.encode(values.data(), bytes.data());
    else
      std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }

  std::unique_ptr<FeatureArrival> read(LateReading reading) {
    reading.form = {.type = {.cols = kCols}};
    return read_late(run.machine, tensor, {{hot, rows - hot}}, std::move(reading));
  }
  void require(FeatureArrival& arrival, const std::vector<NodeId>& ids) const {
    arrival.require({.data = ids.data(), .size = std::ssize(ids)}, cuda::Stream());
  }
  void expect_row(Count row) const {
    std::vector<std::byte> found(tensor.spec().row_bytes());
    tensor.read_rows(row, 1, found.data());
    ASSERT_EQ(found, expected_row(row)) << row;
  }
  void close() { tensor.close(run.machine); }
};

void finish(FeatureArrival& arrival) {
  test::world().communicator().together([&] { arrival.finish(); });
}

TEST(RowFlags, LetEachRowBeWrittenOnce) {
  constexpr Count kRows = 1000;
  std::vector<std::uint64_t> words(RowFlags::words(kRows));
  RowFlags flags(words.data(), kRows);
  std::vector<std::atomic<int>> writes(kRows);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 200; ++i) {
        const Count first = random() % kRows;
        const Count count = std::min<Count>(kRows - first, random() % 150);
        flags.put({first, count}, [&](Range run) {
          for (Count row = run.first; row < run.end(); ++row) {
            EXPECT_FALSE(flags.has(row));
            ++writes[at(row)];
          }
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (Count row = 0; row < kRows; ++row) EXPECT_EQ(writes[at(row)], flags.has(row) ? 1 : 0) << row;
  flags.put({0, kRows}, [](Range) {});
  for (Count row = 0; row < kRows; ++row) EXPECT_TRUE(flags.has(row)) << row;
}

TEST(HotAndLate, CutsEverySegment) {
  const tensor::Placement placement{.segments = {{{host, 100}}, {{host, 0}}, {{host, 1}}, {{host, 50}}}};
  const HotAndLate rows = hot_and_late(placement, 1);
  ASSERT_EQ(rows.hot.size(), 3u);
  ASSERT_EQ(rows.late.size(), 2u);
  EXPECT_EQ(rows.late[0].first, 11);
  EXPECT_EQ(rows.late[0].end(), 100);
  EXPECT_EQ(rows.late[1].first, 107);
  EXPECT_EQ(rows.late[1].end(), 151);
  EXPECT_EQ(rows.late_rows(), 89 + 44);
}

TEST(HotAndLate, LeavesNoReplicatedRowLateWhereSeveralRanksWriteIt) {
  const tensor::Placement placement{.segments = {{{replicated, 60}, {host, 40}}}};
  EXPECT_EQ(hot_and_late(placement, 1).late_rows(), 89);
  EXPECT_EQ(hot_and_late(placement, 2).late_rows(), 40);
}

TEST(Arrival, BringsWhatIsRequiredWhileTheRestWaits) {
  Table table(5000, 100);
  std::promise<void> gate;
  const std::shared_future<void> open = gate.get_future().share();
  std::mutex mutex;
  Count read_alone = 0;
  const auto arrival = table.read({.checked = source_of([&](Count first, Count count, std::byte* out) {
                                     open.wait();
                                     write_expected(first, count, out);
                                   }),
                                   .single = source_of([&](Count first, Count count, std::byte* out) {
                                     const std::lock_guard lock(mutex);
                                     read_alone += count;
                                     write_expected(first, count, out);
                                   })});
  const std::vector<NodeId> ids{5, 99, -1, 100, 4999, 1700, 1700, 100};
  table.require(*arrival, ids);
  for (const NodeId id : ids)
    if (id >= 0) table.expect_row(id);
  table.run.machine.barrier();
  EXPECT_LE(arrival->report().required_rows, 3);
  EXPECT_LE(read_alone, 3);  // other ranks may have been first
  Count all = read_alone;
  table.run.machine.communicator().all_reduce(std::span(&all, 1));
  EXPECT_GE(all, 3);
  EXPECT_EQ(arrival->report().late_rows, 4900);
  EXPECT_EQ(arrival->report().background_seconds, 0);
  table.run.machine.barrier();
  gate.set_value();
  finish(*arrival);
  EXPECT_GT(arrival->report().background_seconds, 0);
  for (Count row = 0; row < table.rows; ++row) table.expect_row(row);
  table.run.machine.barrier();
  table.close();
}

TEST(Arrival, GivesTheSameRowsInAnyOrder) {
  Table table(20000, 7);
  const auto read = source_of(write_expected);
  const auto arrival = table.read({.checked = read, .single = read, .threads = 2});
  std::mt19937 random(17 + static_cast<unsigned>(test::world().rank()));
  for (int batch = 0; batch < 20; ++batch) {
    std::vector<NodeId> ids(500);
    for (NodeId& id : ids) id = static_cast<NodeId>(random() % 20000);
    table.require(*arrival, ids);
    for (const NodeId id : ids) table.expect_row(id);
  }
  finish(*arrival);
  for (Count row = 0; row < table.rows; ++row) table.expect_row(row);
  table.run.machine.barrier();
  table.close();
}

TEST(Arrival, CompressesRows) {
  Table table(2000, 7, {.kind = RowCode::Kind::i8, .cols = kCols});
  const auto read = source_of(write_expected);
  const auto arrival = table.read({.checked = read, .single = read});
  table.require(*arrival, {1999, 8, 1000});
  finish(*arrival);
  for (Count row = 0; row < table.rows; ++row) table.expect_row(row);
  table.run.machine.barrier();
  table.close();
}

TEST(Arrival, FailsOnAllRanksIfOneCannotRead) {
  Table table(3000, 10);
  const int last = table.run.machine.size() - 1;
  const bool fails = table.run.machine.rank() == last;
  const auto arrival = table.read({.checked = source_of([&](Count first, Count count, std::byte* out) {
                                     if (fails) throw InputError("rows are damaged");
                                     write_expected(first, count, out);
                                   }),
                                   .single = source_of(write_expected)});
  EXPECT_THROW(finish(*arrival), InputError);
  if (fails) {
    EXPECT_THROW(table.require(*arrival, {5}), InputError);
  }
  table.run.machine.barrier();
  table.close();
}

TEST(Arrival, StopsReadingWhenItEnds) {
  Table table(1 << 20, 1);
  std::atomic<Count> read{0};
  const auto slow = source_of([&](Count first, Count count, std::byte* out) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    read += count;
    write_expected(first, count, out);
  });
  auto arrival = table.read({.checked = slow, .single = slow});
  arrival.reset();
  EXPECT_LT(read, table.rows);
  table.run.machine.barrier();
  table.close();
}

TEST(Arrival, RefusesValuesThatAreNotFinite) {
  Table table(1000, 10);
  const auto read = source_of([](Count first, Count count, std::byte* out) {
    write_expected(first, count, out);
    if (first <= 500 && 500 < first + count)
      reinterpret_cast<float*>(out)[(500 - first) * kCols + 2] = std::numeric_limits<float>::infinity();
  });
  const auto arrival = table.read({.checked = read, .single = read});
  EXPECT_THROW(table.require(*arrival, {500}), InputError);
  EXPECT_THROW(finish(*arrival), InputError);
  table.run.machine.barrier();
  table.close();
}

}  // namespace
}  // namespace strata::store
