// SPDX-License-Identifier: Apache-2.0
#include "host_path/host_gather.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/util/error.hpp"

namespace strata::tensor {
namespace {

constexpr Device kGpu{Device::Kind::cuda, 0};
constexpr int kPoison = 0xFB;

struct Table {
  DType dtype = DType::f32;
  Count rows = 0, cols = 0;
  Count pitch = 0;  // in bytes
  std::uint64_t seed = 1;

  Count row_bytes() const { return cols * static_cast<Count>(size_of(dtype)); }
};

float finite(std::mt19937_64& random) { return std::uniform_real_distribution<float>(-100, 100)(random); }

/// Rows in pinned memory, finite where they are floats.
class HostTable {
 public:
  explicit HostTable(const Table& table)
      : spec_(table),
        bytes_(cuda::Memory::pinned, std::max<Count>(1, table.rows * table.pitch), "a test's table") {
    std::mt19937_64 random(table.seed);
    for (std::byte& byte : bytes_.span()) byte = static_cast<std::byte>(random());
    for (Count row = 0; row < table.rows; ++row) {
      for (Count col = 0; col < table.cols; ++col) set_finite(row, col, random);
    }
  }

  const Table& spec() const { return spec_; }
  const std::byte* row(Count row) const { return bytes_.data() + row * spec_.pitch; }
  HostGather::Source source() const {
    HostGather::Source source{.rows = bytes_.data(), .table = {}};
    source.table.host = bytes_.data();
    source.table.num_segments = 1;  // all of whose rows lie in host memory
    source.table.rows = spec_.rows;
    source.table.row_bytes = spec_.row_bytes();
    source.table.row_pitch = spec_.pitch;
    return source;
  }

 private:
  void set_finite(Count row, Count col, std::mt19937_64& random) {
    std::byte* at = bytes_.data() + row * spec_.pitch + col * static_cast<Count>(size_of(spec_.dtype));
    const auto set = [&](auto value) { std::memcpy(at, &value, sizeof(value)); };
    if (spec_.dtype == DType::f32) set(finite(random));
    if (spec_.dtype == DType::f64) set(static_cast<double>(finite(random)));
    if (spec_.dtype == DType::f16) set(f32_to_f16(finite(random)));
    if (spec_.dtype == DType::bf16) set(f32_to_bf16(finite(random)));
  }

  Table spec_;
  cuda::Array<std::byte> bytes_;
};

template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

float as_float(DType dtype, const std::byte* at, float scale) {
  switch (dtype) {
    case DType::f32:
      return load<float>(at);
    case DType::f16:
      return f16_to_f32(load<std::uint16_t>(at));
    case DType::bf16:
      return bf16_to_f32(load<std::uint16_t>(at));
    case DType::f64:
      return static_cast<float>(load<double>(at));
    case DType::i8:
      return static_cast<float>(load<std::int8_t>(at)) * scale;
    case DType::u8:
      return static_cast<float>(load<std::uint8_t>(at));
    case DType::i32:
      return static_cast<float>(load<std::int32_t>(at));
    case DType::i64:
      return static_cast<float>(load<std::int64_t>(at));
  }
  return 0;
}

/// An element as the gather must write it.
void write_element(const RowFormat& format, const std::byte* from, std::byte* to) {
  if (format.stored == format.out) {
    std::memcpy(to, from, size_of(format.stored));
  } else if (format.out == DType::bf16) {
    const std::uint16_t bits = f32_to_bf16(as_float(format.stored, from, format.scale));
    std::memcpy(to, &bits, sizeof(bits));
  } else {
    const float value = as_float(format.stored, from, format.scale);
    std::memcpy(to, &value, sizeof(value));
  }
}

struct ListCase {
  Count bound = 0;
  Count begin = 0, end = 0;  // on the device if not the whole
  NodeId first = 0;
  bool wide = true, sorted = false, positions = false;
  DType out = DType::f32;
  Count out_pitch = 0;     // in elements
  Count misalignment = 0;  // of the output, in elements
  std::uint64_t seed = 1;
};

/// A job on random ids with all that it needs on the device, and what it must give.
class TestJob {
 public:
  TestJob(const HostTable& table, const ListCase& list, const cuda::Stream& stream)
      : table_(table), case_(list), ids_(static_cast<std::size_t>(list.bound)), positions_(ids_.size()) {
    std::mt19937_64 random(list.seed);
    const Count rows = std::max<Count>(1, table.spec().rows);
    for (NodeId& id : ids_) {
      id = list.first + static_cast<NodeId>(random() % static_cast<std::uint64_t>(rows));
      if (random() % 8 == 0) id = -1;
      if (random() % 16 == 0) id = list.first + rows + static_cast<NodeId>(random() % 1000);
    }
    if (list.sorted) std::ranges::sort(ids_);
    std::iota(positions_.begin(), positions_.end(), 0u);
    if (list.positions) std::ranges::shuffle(positions_, random);
    upload(stream);
  }

  RowGather job() const {
    const bool whole = case_.begin == 0 && case_.end == case_.bound;
    return {.list = {.ids = case_.wide ? static_cast<const void*>(wide_.data()) : narrow_.data(),
                     .wide = case_.wide,
                     .first = case_.first,
                     .bound = case_.bound,
                     .begin = whole ? nullptr : ends_.data(),
                     .end = whole ? nullptr : ends_.data() + 1,
                     .positions = case_.positions ? device_positions_.data() : nullptr},
            .format = format(),
            .out = out_.data() + case_.misalignment * element_bytes(),
            .sorted = case_.sorted};
  }

  void expect_result(const cuda::Stream& stream) const {
    std::vector<std::byte> got(static_cast<std::size_t>(out_.size()));
    cuda::copy_async(got.data(), out_.data(), got.size(), stream);
    stream.synchronize();
    const std::vector<std::byte> wanted = expected();
    const auto differ = std::ranges::mismatch(got, wanted);
    ASSERT_EQ(differ.in1, got.end()) << "byte " << differ.in1 - got.begin() << " of " << got.size()
                                     << ", seed " << case_.seed << ", " << case_.bound << " ids";
  }

  struct FirstBad {
    bool found = false;
    Count position = 0;
    NodeId id = 0;
  };
  FirstBad first_bad() const {
    FirstBad first;
    for (Count i = begin(); i < end(); ++i) {
      const NodeId id = ids_[static_cast<std::size_t>(i)];
      const Count position = positions_[static_cast<std::size_t>(i)];
      if (id == -1 || is_row(id) || (first.found && first.position < position)) continue;
      first = {true, position, id};
    }
    return first;
  }

 private:
  Count element_bytes() const { return static_cast<Count>(size_of(case_.out)); }
  Count pitch() const { return case_.out_pitch > 0 ? case_.out_pitch : table_.spec().cols; }
  Count begin() const { return case_.begin; }
  Count end() const { return case_.end; }
  bool is_row(NodeId id) const { return id >= case_.first && id - case_.first < table_.spec().rows; }
  RowFormat format() const {
    return {.stored = table_.spec().dtype,
            .out = case_.out,
            .cols = table_.spec().cols,
            .out_pitch = case_.out_pitch,
            .scale = 0.25f};
  }

  void upload(const cuda::Stream& stream) {
    const cuda::DeviceGuard guard(kGpu);
    const Count size = std::max<Count>(1, case_.bound);
    wide_ = cuda::Array<NodeId>(cuda::Memory::device, size, "ids", kGpu);
    narrow_ = cuda::Array<std::int32_t>(cuda::Memory::device, size, "ids", kGpu);
    device_positions_ = cuda::Array<std::uint32_t>(cuda::Memory::device, size, "positions", kGpu);
    ends_ = cuda::Array<Count>(cuda::Memory::device, 2, "ends", kGpu);
    out_ = cuda::Array<std::byte>(cuda::Memory::device,
                                  ((size + 1) * pitch() + case_.misalignment) * element_bytes(), "the output",
                                  kGpu);
    const Count ends[2] = {case_.begin, case_.end};
    const std::vector<std::int32_t> narrow(ids_.begin(), ids_.end());
    cuda::copy_async(wide_.data(), ids_.data(), ids_.size() * sizeof(NodeId), stream);
    cuda::copy_async(narrow_.data(), narrow.data(), narrow.size() * sizeof(std::int32_t), stream);
    cuda::copy_async(device_positions_.data(), positions_.data(), positions_.size() * sizeof(std::uint32_t),
                     stream);
    cuda::copy_async(ends_.data(), ends, sizeof(ends), stream);
    cuda::fill_async(out_.data(), kPoison, static_cast<std::size_t>(out_.size()), stream);
    stream.synchronize();
  }

  std::vector<std::byte> expected() const {
    std::vector<std::byte> bytes(static_cast<std::size_t>(out_.size()), static_cast<std::byte>(kPoison));
    const RowFormat row_format = format();
    const Count stored_bytes = static_cast<Count>(size_of(row_format.stored));
    for (Count i = begin(); i < end(); ++i) {
      const NodeId id = ids_[static_cast<std::size_t>(i)];
      const Count position = positions_[static_cast<std::size_t>(i)];
      std::byte* to = bytes.data() + (case_.misalignment + position * pitch()) * element_bytes();
      if (!is_row(id)) {
        std::fill_n(to, row_format.cols * element_bytes(), std::byte{0});
        continue;
      }
      const std::byte* from = table_.row(id - case_.first);
      for (Count col = 0; col < row_format.cols; ++col)
        write_element(row_format, from + col * stored_bytes, to + col * element_bytes());
    }
    return bytes;
  }

  const HostTable& table_;
  ListCase case_;
  std::vector<NodeId> ids_;
  std::vector<std::uint32_t> positions_;
  cuda::Array<NodeId> wide_;
  cuda::Array<std::int32_t> narrow_;
  cuda::Array<std::uint32_t> device_positions_;
  cuda::Array<Count> ends_;
  cuda::Array<std::byte> out_;
};

class HostGatherOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
    guard_.emplace(kGpu);
    stream_ = cuda::Stream(kGpu);
  }
  std::optional<cuda::DeviceGuard> guard_;
  cuda::Stream stream_;
};

/// Random ids are sorted even if the table is small.
HostGather::Options options(double share, int threads = 3) {
  return {.threads = threads, .share = share, .zero_copy = {}, .sort_above_bytes = 0};
}

constexpr DType kAllTypes[] = {DType::f32, DType::f16, DType::bf16, DType::f64,
                               DType::i8,  DType::u8,  DType::i32,  DType::i64};

Table random_table(std::mt19937_64& random) {
  constexpr Count kCols[] = {1, 2, 3, 4, 7, 8, 16, 25, 32, 50, 100, 128, 256, 257, 1000};
  Table table{.dtype = kAllTypes[random() % std::size(kAllTypes)],
              .rows = 1 + static_cast<Count>(random() % 3000),
              .cols = kCols[random() % std::size(kCols)],
              .seed = random()};
  const Count element = static_cast<Count>(size_of(table.dtype));
  table.pitch = table.row_bytes() + static_cast<Count>(random() % 3) * element;
  return table;
}

ListCase random_list(const Table& table, std::mt19937_64& random) {
  constexpr Count kBounds[] = {1, 100, 4095, 4096, 5000, 20'000};
  ListCase list{.bound = kBounds[random() % std::size(kBounds)],
                .wide = random() % 2 == 0,
                .sorted = random() % 2 == 0,
                .positions = random() % 2 == 0,
                .out = table.dtype,
                .seed = random()};
  list.end = list.bound;
  if (random() % 2 == 0) {
    list.begin = static_cast<Count>(random() % static_cast<std::uint64_t>(list.bound));
    list.end =
        list.begin + static_cast<Count>(random() % static_cast<std::uint64_t>(list.bound - list.begin + 1));
  }
  if (random() % 3 == 0) list.first = list.wide ? 5'000'000'000 : 70'000;
  if (random() % 2 == 0)
    list.out = random() % 2 == 0 && can_gather(table.dtype, DType::bf16) ? DType::bf16 : DType::f32;
  if (random() % 3 == 0) list.out_pitch = table.cols + 1 + static_cast<Count>(random() % 8);
  list.misalignment = static_cast<Count>(random() % 3);
  return list;
}

TEST_F(HostGatherOnGpu, GathersRandomListsFromRandomTables) {
  std::mt19937_64 random(1);
  constexpr int kTables = 40, kLists = 6;
  constexpr double kShares[] = {0, 0.3, 1};
  for (int t = 0; t < kTables; ++t) {
    const HostTable table(random_table(random));
    SCOPED_TRACE(testing::Message() << name_of(table.spec().dtype) << " " << table.spec().cols
                                    << " columns, pitch " << table.spec().pitch << " bytes, table " << t);
    HostGather gather(kGpu, table.source(), options(kShares[t % 3], 1 + t % 5));
    for (int l = 0; l < kLists; ++l) {
      const TestJob job(table, random_list(table.spec(), random), stream_);
      gather.gather(job.job(), stream_);
      job.expect_result(stream_);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(HostGatherOnGpu, GathersLongRows) {
  // Longer than a slot of the ring usually is.
  const HostTable table({.dtype = DType::f32, .rows = 50, .cols = 100'000, .pitch = 400'000});
  HostGather gather(kGpu, table.source(), options(1));
  const TestJob job(table, {.bound = 100, .end = 100}, stream_);
  gather.gather(job.job(), stream_);
  job.expect_result(stream_);
}

TEST_F(HostGatherOnGpu, TakesListsThatTurnOutEmpty) {
  const HostTable table({.dtype = DType::f32, .rows = 1000, .cols = 32, .pitch = 128});
  for (const double share : {0.0, 0.5, 1.0}) {
    HostGather gather(kGpu, table.source(), options(share));
    for (const Count bound : {0, 1, 10'000}) {
      for (const bool sorted : {false, true}) {
        // Equal ends on the device, and none at all.
        const TestJob empty(table, {.bound = bound, .begin = bound, .end = bound, .sorted = sorted}, stream_);
        gather.gather(empty.job(), stream_);
        empty.expect_result(stream_);
        const TestJob full(table, {.bound = bound, .end = bound, .sorted = sorted}, stream_);
        gather.gather(full.job(), stream_);
        full.expect_result(stream_);
      }
    }
  }
}

TEST_F(HostGatherOnGpu, TakesATableWithoutRows) {
  const HostTable table({.dtype = DType::f32, .rows = 0, .cols = 32, .pitch = 128});
  HostGather gather(kGpu, table.source(), options(0.5));
  const TestJob job(table, {.bound = 10'000, .end = 10'000}, stream_);
  gather.gather(job.job(), stream_);
  job.expect_result(stream_);
}

/// Jobs that follow each other without a wait, on two streams in turn, with the share being measured
/// meanwhile.
TEST_F(HostGatherOnGpu, RunsManyJobsOnTwoStreams) {
  const HostTable table({.dtype = DType::f32, .rows = 3000, .cols = 32, .pitch = 128});
  const cuda::Stream other(kGpu);
  std::mt19937_64 random(7);
  for (const double share : {0.0, 0.3, 1.0}) {
    HostGather gather(kGpu, table.source(), options(share));
    constexpr int kRounds = 10, kJobs = 30;
    for (int round = 0; round < kRounds; ++round) {
      std::vector<std::unique_ptr<TestJob>> jobs;
      for (int j = 0; j < kJobs; ++j)
        jobs.push_back(std::make_unique<TestJob>(table, random_list(table.spec(), random), stream_));
      for (std::size_t j = 0; j < jobs.size(); ++j)
        gather.gather(jobs[j]->job(), j % 2 == 0 ? stream_ : other);
      for (std::size_t j = 0; j < jobs.size(); ++j) {
        jobs[j]->expect_result(j % 2 == 0 ? stream_ : other);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(HostGatherOnGpu, SettlesOnAShare) {
  const HostTable table({.dtype = DType::f32, .rows = 10'000, .cols = 32, .pitch = 128});
  HostGather gather(kGpu, table.source(), options(0));
  constexpr int kJobs = 40;  // more than the search takes
  for (const bool sorted : {false, true}) {
    const TestJob job(table, {.bound = 20'000, .end = 20'000, .sorted = sorted}, stream_);
    for (int j = 0; j < kJobs; ++j) {
      gather.gather(job.job(), stream_);
      stream_.synchronize();
    }
    const HostGather::Shares settled = gather.shares();
    gather.gather(job.job(), stream_);
    job.expect_result(stream_);
    const double share = sorted ? settled.sorted : settled.random,
                 after = sorted ? gather.shares().sorted : gather.shares().random;
    EXPECT_EQ(share, after);
    EXPECT_GE(share, 0);
    EXPECT_LE(share, 1);
  }
}

TEST_F(HostGatherOnGpu, FinishesItsJobsWhenDestroyed) {
  const HostTable table({.dtype = DType::f32, .rows = 3000, .cols = 32, .pitch = 128});
  for (int i = 0; i < 20; ++i) {
    std::vector<std::unique_ptr<TestJob>> jobs;
    {
      HostGather gather(kGpu, table.source(), options(i % 2 == 0 ? 1 : 0.5));
      for (int j = 0; j < i; ++j) {
        jobs.push_back(std::make_unique<TestJob>(
            table, ListCase{.bound = 20'000, .end = 20'000, .seed = static_cast<std::uint64_t>(j)}, stream_));
      }
      for (const auto& job : jobs) gather.gather(job->job(), stream_);
    }
    for (const auto& job : jobs) job->expect_result(stream_);
  }
}

TEST_F(HostGatherOnGpu, NotesTheFirstBadId) {
  const HostTable table({.dtype = DType::f32, .rows = 3000, .cols = 8, .pitch = 32});
  for (const double share : {0.4, 1.0}) {
    HostGather gather(kGpu, table.source(), options(share));
    for (const bool sorted : {false, true}) {
      const TestJob job(table, {.bound = 10'000, .end = 10'000, .sorted = sorted, .positions = true},
                        stream_);
      const cuda::Array<BadId> bad(cuda::Memory::device, 1, "the check", kGpu);
      cuda::fill_async(bad.data(), 0, sizeof(BadId), stream_);
      gather.gather(job.job(), stream_, bad.data());
      BadId got;
      cuda::copy_async(&got, bad.data(), sizeof(got), stream_);
      stream_.synchronize();
      const TestJob::FirstBad wanted = job.first_bad();
      ASSERT_TRUE(wanted.found);
      EXPECT_EQ(got.found, 1);
      EXPECT_EQ(got.position, wanted.position);
      EXPECT_EQ(got.id, wanted.id);
      job.expect_result(stream_);
    }
  }
}

// Row numbers beyond 2^31 take 64 bits on their way to the threads and through the sort.
TEST_F(HostGatherOnGpu, KnowsTablesOfMoreThanTwoBillionRows) {
  constexpr Count kRows = (Count{1} << 31) + 5000;
  std::vector<std::uint8_t> rows(kRows);
  const auto value_of = [](Count row) { return static_cast<std::uint8_t>((row >> 20) * 7 + row); };
  for (Count row = 0; row < kRows; ++row) rows[static_cast<std::size_t>(row)] = value_of(row);
  const cuda::Registration registration(rows.data(), rows.size());
  HostGather::Source source{.rows = reinterpret_cast<const std::byte*>(rows.data()), .table = {}};
  source.table.host = reinterpret_cast<std::byte*>(rows.data());
  source.table.num_segments = 1;
  source.table.rows = kRows;
  source.table.row_bytes = source.table.row_pitch = 1;

  constexpr Count kIds = 50'000;
  std::mt19937_64 random(3);
  std::vector<NodeId> ids(kIds);
  for (NodeId& id : ids) id = static_cast<NodeId>(random() % kRows);
  ids[7] = kRows - 1;
  const cuda::Array<NodeId> there(cuda::Memory::device, kIds, "ids", kGpu);
  const cuda::Array<std::uint8_t> out(cuda::Memory::device, kIds, "out", kGpu);
  cuda::copy_async(there.data(), ids.data(), ids.size() * sizeof(NodeId), stream_);
  for (const double share : {0.5, 1.0}) {
    cuda::fill_async(out.data(), kPoison, kIds, stream_);
    HostGather gather(kGpu, source, options(share));
    gather.gather({.list = {.ids = there.data(), .bound = kIds},
                   .format = {.stored = DType::u8, .out = DType::u8, .cols = 1, .out_pitch = 1},
                   .out = out.data()},
                  stream_);
    std::vector<std::uint8_t> got(kIds);
    cuda::copy_async(got.data(), out.data(), got.size(), stream_);
    stream_.synchronize();
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], value_of(ids[i])) << i;
  }
}

TEST_F(HostGatherOnGpu, RefusesOptionsOutOfRange) {
  const HostTable table({.dtype = DType::f32, .rows = 10, .cols = 1, .pitch = 4});
  EXPECT_THROW(HostGather(kGpu, table.source(), options(1.5)), InputError);
  EXPECT_THROW(HostGather(kGpu, table.source(), options(-0.5)), InputError);
  EXPECT_THROW(HostGather(kGpu, table.source(), options(0.5, -1)), InputError);
  HostGather gather(kGpu, table.source(), options(0.5));
  EXPECT_THROW(gather.gather({.list = {.bound = 1}, .format = {.cols = 1}}, cuda::Stream()), Error);
}

}  // namespace
}  // namespace strata::tensor
