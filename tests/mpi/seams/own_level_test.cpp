// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "strata/plan/placement.hpp"
#include "strata/tensor/chunk_tensor.hpp"
#include "support/run_setup.hpp"

namespace strata {
namespace {

using enum tensor::Stratum;

constexpr Count kRows = 1000, kCols = 4, kRowBytes = 16, kHostRows = 300;

/// A table on a machine with a level below host memory. A batch reads row r 1000 / (r + 1) times.
plan::TensorDemand table() {
  plan::HeatCurve curve;
  for (Count r = 1; r <= kRows; ++r)
    curve.points.push_back({r, curve.accesses() + 1000.0 / static_cast<double>(r)});
  return {.name = "table",
          .row_bytes = kRowBytes,
          .segments = {curve},
          .rates = {{replicated, {2000}}, {striped, {400}}, {host, {20}}, {storage, {1, 0.5}}}};
}

plan::MachinePlan plan_table(int num_gpus) {
  const plan::TensorDemand demand = table();
  return plan_tensors(std::span(&demand, 1), {.gpu_bytes = 100 * kRowBytes,
                                              .host_bytes = kHostRows * kRowBytes,
                                              .num_gpus = num_gpus,
                                              .stripe_rows = 1});
}

/// Rows in memory, as if they were in a file.
struct KeptRows final : tensor::RowStorage {
  explicit KeptRows(Count rows) : bytes(at(rows * kRowBytes)) {}
  void write(Count first, Count count, const std::byte* rows) override {
    std::copy_n(rows, count * kRowBytes, bytes.begin() + first * kRowBytes);
  }
  void read(Count first, Count count, std::byte* rows) const override {
    std::copy_n(bytes.begin() + first * kRowBytes, count * kRowBytes, rows);
  }
  std::vector<std::byte> bytes;
};

TEST(OwnLevel, TakesTheColdestRowsThatTheHostLacksMemoryFor) {
  const plan::HeatCurve curve = table().segments[0];
  for (const int num_gpus : {0, 1, 2}) {
    const plan::MachinePlan plan = plan_table(num_gpus);
    const tensor::Segment& rows = plan.tensors[0].placement.segments[0];
    EXPECT_EQ(rows.rows(), kRows);
    EXPECT_NEAR(rows.on_gpus(), num_gpus * 100, 4);
    EXPECT_NEAR(rows[host], kHostRows, 1);
    EXPECT_LE(rows[host], kHostRows);
    const double reads = curve.accesses() - curve.accesses_below(kRows - rows[storage]);
    EXPECT_DOUBLE_EQ(plan.seconds[storage], reads * kRowBytes / 1 + 0.5);
    EXPECT_EQ(plan.seconds.batch(), plan.seconds[storage]);
    EXPECT_EQ(plan.tensors[0].strata.back().stratum, storage);
    EXPECT_DOUBLE_EQ(plan.tensors[0].strata.back().share, reads / curve.accesses());
  }
}

TEST(OwnLevel, IsGatheredThroughItsStorage) {
  const test::RunSetup run(0);
  const tensor::Placement placement = plan_table(0).tensors[0].placement;
  const Count on_host = placement.total()[host], below = placement.total()[storage];
  tensor::ChunkTensor tensor =
      tensor::ChunkTensor::create(run.machine, {.name = "table", .rows = kRows, .cols = kCols}, placement,
                                  std::make_shared<KeptRows>(below));
  std::vector<float> rows(kRows * kCols), gathered(rows.size());
  std::iota(rows.begin(), rows.end(), 1.0f);
  if (run.machine.rank() == 0) tensor.write_rows(0, on_host, rows.data());
  tensor.write_rows(on_host, below, &rows[at(on_host * kCols)]);
  tensor.fence(run.machine, {});
  std::vector<NodeId> ids(kRows);
  std::iota(ids.rbegin(), ids.rend(), 0);
  ThreadPool pool(2);
  tensor.gather({.data = ids.data(), .size = kRows}, gathered.data(), {}, pool);
  for (std::size_t i = 0; i < ids.size(); ++i)
    for (std::size_t c = 0; c < kCols; ++c)
      ASSERT_EQ(gathered[i * kCols + c], rows[at(ids[i]) * kCols + c]) << ids[i];
  tensor::ByStratum<Count> counts;
  tensor.count_strata({.data = ids.data(), .size = kRows}, &counts[replicated], {});
  EXPECT_EQ(counts[host], on_host);
  EXPECT_EQ(counts[storage], below);
  tensor.close(run.machine);
}

}  // namespace
}  // namespace strata
