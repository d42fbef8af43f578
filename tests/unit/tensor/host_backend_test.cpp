// SPDX-License-Identifier: Apache-2.0
#include "host_backend.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "strata/cuda/stream.hpp"
#include "strata/util/error.hpp"

namespace strata::tensor {
namespace {

constexpr Count kRows = 9, kCols = 5;

/// A backend of rows in memory of its own.
struct Table {
  explicit Table(bool padded, const Placement& placement = Placement::on_host(kRows))
      : spec{.name = "table", .rows = kRows, .cols = kCols, .padded = padded},
        memory(spec.rows * spec.row_pitch(), std::byte{0xff}),
        backend(Device(), spec) {
    backend.adopt(Layout(placement), memory.data(), nullptr);
  }
  void write(Count first, const std::vector<float>& rows) {
    backend.write_rows(first, std::ssize(rows) / kCols, reinterpret_cast<const std::byte*>(rows.data()));
  }
  std::vector<float> read(Count first, Count count) const {
    std::vector<float> rows(at(count * kCols));
    backend.read_rows(first, count, reinterpret_cast<std::byte*>(rows.data()));
    return rows;
  }

  TensorSpec spec;
  std::vector<std::byte> memory;
  HostBackend backend;
};

std::vector<float> numbers(Count count) {
  std::vector<float> values(at(count));
  std::iota(values.begin(), values.end(), 1.0F);
  return values;
}

TEST(HostBackend, ReadsWhatWasWritten) {
  for (const bool padded : {false, true}) {
    Table table(padded);
    const std::vector<float> all = numbers(kRows * kCols);
    table.write(0, all);
    EXPECT_EQ(table.read(0, kRows), all) << "padded: " << padded;
    table.write(2, numbers(3 * kCols));
    EXPECT_EQ(table.read(2, 3), numbers(3 * kCols)) << "padded: " << padded;
    EXPECT_EQ(table.read(5, 1), std::vector<float>(all.begin() + 25, all.begin() + 30)) << padded;
  }
}

TEST(HostBackend, GathersAndScatters) {
  Table table(true);
  table.write(0, numbers(kRows * kCols));
  const cuda::Stream stream{Device()};
  ThreadPool pool(1);
  const std::vector<NodeId> ids = {8, 0};
  const std::vector<float> in = numbers(2 * kCols);
  table.backend.scatter({.data = ids.data(), .size = 2}, {.data = in.data()}, stream, pool);
  std::vector<float> out(2 * kCols);
  table.backend.gather({.data = ids.data(), .size = 2}, {.data = out.data()}, stream, pool);
  EXPECT_EQ(out, in);
  EXPECT_EQ(table.read(8, 1), numbers(kCols));
}

TEST(HostBackend, ShowsItsRows) {
  Table table(true);
  const std::vector<StratumView> views = table.backend.views();
  ASSERT_EQ(views.size(), 1u);
  EXPECT_EQ(views[0].stratum, Stratum::host);
  EXPECT_EQ(views[0].data, table.memory.data());
  EXPECT_EQ(views[0].rows, kRows);
  EXPECT_EQ(views[0].row_pitch, 128u);
}

TEST(HostBackend, RefusesWhatTheCpuCannotReach) {
  const Table table(false, {.segments = {{{Stratum::replicated, 1}, {Stratum::host, kRows - 1}}}});
  const cuda::Stream stream{Device()};
  Count counts[kNumStrata] = {};
  const NodeId id = 1;
  EXPECT_THAT([&] { table.backend.count_strata({.data = &id, .size = 1}, counts, stream); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("\"table\" has rows in GPU memory")));
  EXPECT_THAT([&] { table.backend.refuse(stream); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("\"table\" cannot be used by cpu")));
}

}  // namespace
}  // namespace strata::tensor
