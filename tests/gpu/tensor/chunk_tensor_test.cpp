// SPDX-License-Identifier: Apache-2.0
#include "strata/tensor/chunk_tensor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#include "strata/cuda/device.hpp"
#include "strata/util/error.hpp"
#include "support/run_setup.hpp"
#include "support/tensor_cases.hpp"
#include "support/tensor_model.hpp"

namespace strata::tensor {
namespace {

using enum Stratum;

using test::RunSetup;
using test::TensorCase;
using Compute = comm::TopologyOptions::Compute;

class ChunkTensorOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
    run_.emplace(0, Compute::cuda);
  }
  const comm::Machine& machine() const { return run_->machine; }

  void expect_gathers(const TensorCase& tensor_case) {
    SCOPED_TRACE(tensor_case.str());
    test::FilledTensor filled = test::fill(machine(), tensor_case);
    const auto rank = static_cast<std::uint64_t>(machine().rank());
    for (const bool sorted : {false, true}) {
      for (const Count misalignment : {0, 1, 2}) {
        constexpr NodeId kFirst = 5'000'000'000;
        const auto ids = test::random_ids({.count = 2500,
                                           .below = tensor_case.rows(),
                                           .first = kFirst,
                                           .sorted = sorted,
                                           .seed = tensor_case.seed + rank});
        EXPECT_EQ(test::gathered(filled.tensor, machine().device(), ids,
                                 {.first = kFirst, .misalignment = misalignment}),
                  test::expected_rows(filled, ids, kFirst))
            << "sorted " << sorted << ", misalignment " << misalignment;
      }
    }
    filled.tensor.close(machine());
  }

 private:
  std::optional<RunSetup> run_;
};

constexpr DType kAllTypes[] = {DType::f32, DType::f16, DType::bf16, DType::f64,
                               DType::i8,  DType::u8,  DType::i32,  DType::i64};

/// One of each kind, and one of all strata in two parts.
std::vector<Placement> placements() {
  return {{.segments = {{{host, 900}}}},
          {.segments = {{{replicated, 900}}}},
          {.segments = {{{striped, 900}}}},
          {.segments = {{{replicated, 100}, {striped, 500}, {host, 300}},
                        {{replicated, 1}, {striped, 130}, {host, 77}}},
           .stripe_rows = 16}};
}

TEST_F(ChunkTensorOnGpu, GathersEveryTypeFromEveryStratum) {
  std::uint64_t seed = 1;
  for (const DType dtype : kAllTypes) {
    for (const Placement& placement : placements()) {
      for (const Count cols : {1, 3, 6, 32, 100}) expect_gathers({dtype, cols, placement, seed++});
    }
  }
}

TEST_F(ChunkTensorOnGpu, DoesWhatItsModelDoes) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed)
    test::check_random_tensor(machine(), machine().device(), seed);
}

TEST_F(ChunkTensorOnGpu, GathersShortAndLongRows) {
  std::uint64_t seed = 1000;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const Count bytes : {4, 8, 12, 16, 20, 60, 64, 100, 128, 500, 512, 1024, 2048, 4092, 4096}) {
      expect_gathers({dtype, bytes / static_cast<Count>(size_of(dtype)), placements().back(), seed++});
    }
  }
}

constexpr RowCode::Kind kAllCodes[] = {RowCode::Kind::i8, RowCode::Kind::e4m3, RowCode::Kind::i4,
                                       RowCode::Kind::vq};

TEST_F(ChunkTensorOnGpu, DecodesRowsOfEveryStratum) {
  std::uint64_t seed = 5000;
  for (const RowCode::Kind code : kAllCodes)
    for (const Placement& placement : placements())
      for (const Count cols : {1, 4, 7, 17, 33, 100, 124, 128, 301})
        expect_gathers({DType::f32, cols, placement, seed++, code});
}

TEST_F(ChunkTensorOnGpu, DecodesHostRowsAlongEveryPath) {
  for (const RowCode::Kind code : kAllCodes) {
    for (const HostPath path : {HostPath::zero_copy, HostPath::threads, HostPath::both}) {
      for (const Count gpu_rows : {0, 700}) {
        const TensorCase tensor_case{
            DType::f32, 37, {.segments = {{{replicated, gpu_rows}, {host, 3000}}}}, 6000, code};
        SCOPED_TRACE(tensor_case.str() + ", " + std::string(enum_name(path)));
        test::FilledTensor filled = test::fill(machine(), tensor_case);
        filled.tensor.configure({.host_path = path, .threads = 2, .threads_share = 0.5});
        for (std::uint64_t batch = 0; batch < 3; ++batch) {
          const auto ids = test::random_ids({.count = 5000, .below = tensor_case.rows(), .seed = batch + 1});
          EXPECT_EQ(test::gathered(filled.tensor, machine().device(), ids, {}),
                    test::expected_rows(filled, ids, 0));
          EXPECT_EQ(test::gathered_codes(filled.tensor, machine().device(), ids),
                    test::expected_codes(filled, ids));
        }
        filled.tensor.close(machine());
      }
    }
  }
}

TEST_F(ChunkTensorOnGpu, DecodesRowsThatArrived) {
  for (const RowCode::Kind code : kAllCodes) {
    for (const Count cols : {1, 6, 33, 128, 301}) {
      const TensorCase tensor_case{DType::f32, cols, Placement::on_host(500), 7000, code};
      SCOPED_TRACE(tensor_case.str());
      test::FilledTensor filled = test::fill(machine(), tensor_case);
      test::expect_decodes(filled, machine().device());
      filled.tensor.close(machine());
    }
  }
}

TEST_F(ChunkTensorOnGpu, KnowsAnyStripeWidth) {
  std::uint64_t seed = 2000;
  for (const Count stripe_rows : {1, 2, 64, 1024}) {
    Placement placement = placements().back();
    placement.stripe_rows = stripe_rows;
    expect_gathers({DType::f32, 5, placement, seed++});
  }
}

TEST_F(ChunkTensorOnGpu, SearchesMoreSegmentsThanALaunchCarries) {
  for (const int segments : {16, 17, 200}) {
    Placement placement{.segments = {}, .stripe_rows = 4};
    for (int i = 0; i < segments; ++i)
      placement.segments.push_back({{replicated, i % 5}, {striped, i % 3}, {host, i % 7}});
    expect_gathers({DType::f32, 6, placement, 3000 + static_cast<std::uint64_t>(segments)});
  }
}

TEST_F(ChunkTensorOnGpu, MayBeEmpty) {
  expect_gathers({DType::f32, 4, {.segments = {}}, 1});
  expect_gathers({DType::f32, 0, {.segments = {{{replicated, 5}, {striped, 5}, {host, 5}}}}, 1});
}

TEST_F(ChunkTensorOnGpu, KeepsStripesWherePeersCanBeReached) {
  ChunkTensor tensor = ChunkTensor::create(machine(), {.name = "striped", .rows = 256, .cols = 4},
                                           {.segments = {{{striped, 256}}}});
  ASSERT_EQ(tensor.placement().segments.size(), 1u);
  EXPECT_EQ(tensor.placement().segments[0][striped], 256) << "see the log for the reason";
  EXPECT_EQ(tensor.host_data(), nullptr);
  tensor.close(machine());
}

TEST_F(ChunkTensorOnGpu, DoesWithoutPeerAccess) {
  ::setenv("STRATA_PEER_ACCESS", "off", 1);
  for (const bool scatters : {false, true}) {
    ChunkTensor tensor =
        ChunkTensor::create(machine(), {.name = "alone", .rows = 100, .cols = 4, .scatters = scatters},
                            {.segments = {{{replicated, 20}, {striped, 50}, {host, 30}}}});
    const Segment segment = tensor.placement().segments.front();
    EXPECT_EQ(segment[replicated], scatters ? 0 : 20);
    EXPECT_EQ(segment[striped], 0);
    EXPECT_EQ(segment[host], scatters ? 100 : 80);
    tensor.close(machine());
  }
  for (std::uint64_t seed = 500; seed < 520; ++seed)
    test::check_random_tensor(machine(), machine().device(), seed);
  ::unsetenv("STRATA_PEER_ACCESS");
}

TEST_F(ChunkTensorOnGpu, WrapsMemoryOfTheCaller) {
  auto rows = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3, 4, 5, 6});
  float* data = rows->data();
  const ChunkTensor tensor =
      ChunkTensor::wrap(machine().device(), {.name = "wrapped", .rows = 3, .cols = 2}, data, std::move(rows));
  EXPECT_EQ(test::gathered(tensor, machine().device(), std::vector<NodeId>{2, -1, 0}, {}),
            (std::vector<float>{5, 6, 0, 0, 1, 2}));
}

TEST_F(ChunkTensorOnGpu, ReturnsAllGpuMemory) {
  const auto cycle = [&] {
    ChunkTensor tensor =
        ChunkTensor::create(machine(), {.name = "cycle", .rows = 30000, .cols = 64, .scatters = true},
                            {.segments = {{{replicated, 10000}, {striped, 10000}, {host, 10000}}}});
    tensor.close(machine());
  };
  const auto free_bytes = [&] {
    machine().barrier();
    const std::int64_t free = cuda::device_memory(machine().device().index).free_bytes;
    machine().barrier();
    return free;
  };
  for (int i = 0; i < 3; ++i) cycle();
  const std::int64_t before = free_bytes();
  for (int i = 0; i < 200; ++i) cycle();
  EXPECT_GE(free_bytes(), before - (std::int64_t{32} << 20)) << "200 cycles of 2.5 MB on the GPU each";
}

TEST_F(ChunkTensorOnGpu, RefusesTheCpuRowsThatLieOnAGpu) {
  ChunkTensor tensor =
      ChunkTensor::create(machine(), {.name = "features", .rows = 10, .cols = 4}, Placement::replicated(10));
  EXPECT_THROW(test::gathered(tensor, {}, std::vector<NodeId>{1}, {}), Error);
  tensor.close(machine());
}

TEST_F(ChunkTensorOnGpu, NamesWhatDoesNotFit) {
  for (const Segment& segment : {Segment{{replicated, Count{1} << 33}}, Segment{{striped, Count{1} << 33}}}) {
    try {
      ChunkTensor::create(machine(), {.name = "features", .rows = Count{1} << 33, .cols = 1024},
                          {.segments = {segment}});
      FAIL() << "accepted";
    } catch (const OutOfMemory& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("\"features\""));
      EXPECT_THAT(error.what(), testing::HasSubstr("free"));
    }
  }
}

}  // namespace
}  // namespace strata::tensor
