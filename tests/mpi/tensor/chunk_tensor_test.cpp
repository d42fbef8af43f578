// SPDX-License-Identifier: Apache-2.0
#include "strata/tensor/chunk_tensor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>

#include "strata/cuda/stream.hpp"
#include "strata/util/error.hpp"
#include "support/run_setup.hpp"
#include "support/tensor_cases.hpp"
#include "support/tensor_model.hpp"

namespace strata::tensor {
namespace {

using enum tensor::Stratum;

using test::RunSetup;
using test::TensorCase;
using testing::HasSubstr;

constexpr DType kAllTypes[] = {DType::f32, DType::f16, DType::bf16, DType::f64,
                               DType::i8,  DType::u8,  DType::i32,  DType::i64};

void expect_gathers(const comm::Machine& machine, const TensorCase& tensor_case) {
  SCOPED_TRACE(tensor_case.str());
  test::FilledTensor filled = test::fill(machine, tensor_case);
  for (const bool sorted : {false, true}) {
    constexpr NodeId kFirst = 1'000'000'000'000;
    const auto ids = test::random_ids({.count = 3000,
                                       .below = tensor_case.rows(),
                                       .first = kFirst,
                                       .sorted = sorted,
                                       .seed = tensor_case.seed + 9});
    EXPECT_EQ(test::gathered(filled.tensor, {}, ids, {.first = kFirst}),
              test::expected_rows(filled, ids, kFirst));
  }
  filled.tensor.close(machine);
}

TEST(ChunkTensorOnHost, GathersEveryTypeAsF32) {
  const RunSetup run(0);
  std::uint64_t seed = 1;
  for (const DType dtype : kAllTypes) {
    for (const Count cols : {1, 3, 32, 100}) {
      expect_gathers(run.machine, {dtype, cols, Placement::on_host(777), seed++});
    }
  }
}

TEST(ChunkTensorOnHost, DecodesRows) {
  const RunSetup run(0);
  std::uint64_t seed = 100;
  for (const auto code : {RowCode::Kind::i8, RowCode::Kind::e4m3, RowCode::Kind::i4, RowCode::Kind::vq}) {
    for (const Count cols : {1, 4, 7, 17, 33, 128}) {
      const TensorCase tensor_case{DType::f32, cols, Placement::on_host(400), seed++, code};
      expect_gathers(run.machine, tensor_case);
      test::FilledTensor filled = test::fill(run.machine, tensor_case);
      const auto ids = test::random_ids({.count = 300, .below = 400, .seed = seed});
      EXPECT_EQ(test::gathered_codes(filled.tensor, {}, ids), test::expected_codes(filled, ids));
      test::expect_decodes(filled, {});
      filled.tensor.close(run.machine);
    }
  }
}

TEST(ChunkTensorOnHost, GathersWideRows) {
  const RunSetup run(0);
  expect_gathers(run.machine, {DType::f32, 1433, Placement::on_host(50), 3});
}

TEST(ChunkTensorOnHost, TakesRowsOfMissingStrata) {
  const RunSetup run(0);
  const TensorCase mixed{
      DType::f32, 5, {.segments = {{{replicated, 10}, {striped, 200}, {host, 30}}, {{striped, 7}}}}, 4};
  expect_gathers(run.machine, mixed);
  ChunkTensor tensor =
      ChunkTensor::create(run.machine, {.name = "mixed", .rows = mixed.rows(), .cols = 5}, mixed.placement);
  ASSERT_EQ(tensor.placement().segments.size(), 1u);
  EXPECT_EQ(tensor.placement().segments[0][host], mixed.rows());
  EXPECT_NE(tensor.host_data(), nullptr);
  tensor.close(run.machine);
}

TEST(ChunkTensorOnHost, WorksOnVirtualMachines) {
  const RunSetup run(1);
  expect_gathers(run.machine,
                 {DType::f16, 9, Placement::on_host(100), static_cast<std::uint64_t>(run.machine.index())});
}

TEST(ChunkTensorOnHost, KeepsSpecialHalfValues) {
  const RunSetup run(0);
  std::vector<std::uint16_t> all(1 << 16);
  std::iota(all.begin(), all.end(), 0);
  ChunkTensor tensor =
      ChunkTensor::create(run.machine, {.name = "halves", .rows = 1 << 16, .cols = 1, .dtype = DType::f16},
                          Placement::on_host(1 << 16));
  if (run.machine.rank() == 0) tensor.write_rows(0, 1 << 16, all.data());
  run.machine.barrier();
  std::vector<NodeId> ids(1 << 16);
  std::iota(ids.begin(), ids.end(), 0);
  const std::vector<float> floats = test::gathered(tensor, {}, ids, {});
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(__builtin_bit_cast(std::uint32_t, floats[i]),
              __builtin_bit_cast(std::uint32_t, f16_to_f32(all[i])))
        << i;
  }
  tensor.close(run.machine);
}

TEST(ChunkTensorOnHost, DoesWhatItsModelDoes) {
  const RunSetup run(0);
  for (std::uint64_t seed = 1; seed <= 40; ++seed) test::check_random_tensor(run.machine, {}, seed);
}

TEST(ChunkTensorOnHost, WrapsMemoryAndKeepsItAlive) {
  std::weak_ptr<std::vector<float>> watch;
  const auto wrap_temporary = [&] {
    auto rows = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3, 4, 5, 6});
    watch = rows;
    float* data = rows->data();
    return ChunkTensor::wrap({}, {.name = "wrapped", .rows = 3, .cols = 2}, data, std::move(rows));
  };
  {
    const ChunkTensor tensor = wrap_temporary();
    EXPECT_FALSE(watch.expired());
    EXPECT_EQ(test::gathered(tensor, {}, std::vector<NodeId>{2, -1, 0}, {}),
              (std::vector<float>{5, 6, 0, 0, 1, 2}));
  }
  EXPECT_TRUE(watch.expired());
}

TEST(ChunkTensorOnHost, RefusesConversionsThatItDoesNotKnow) {
  const RunSetup run(0);
  ChunkTensor tensor = ChunkTensor::create(run.machine, {.name = "ids", .rows = 4, .dtype = DType::i64},
                                           Placement::on_host(4));
  std::vector<std::int32_t> out(1);
  const std::vector<NodeId> ids{1};
  ThreadPool pool(1);
  EXPECT_THROW(tensor.gather({.data = ids.data(), .size = 1}, {.data = out.data(), .dtype = DType::i32},
                             cuda::Stream(), pool),
               Error);
  EXPECT_THROW(tensor.configure({.threads = -1}), InputError);
  EXPECT_THROW(tensor.configure({.threads_share = 1.5}), InputError);
  tensor.close(run.machine);
}

std::ptrdiff_t entries_of(const char* directory) {
  return std::distance(std::filesystem::directory_iterator(directory), std::filesystem::directory_iterator());
}

std::ptrdiff_t mappings() {
  std::ifstream maps("/proc/self/maps");
  return std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
}

TEST(ChunkTensorOnHost, LeavesNothingBehind) {
  const RunSetup run(0);
  const auto descriptors = entries_of("/proc/self/fd"), mapped = mappings();
  for (int i = 0; i < 1000; ++i) {
    ChunkTensor tensor = ChunkTensor::create(run.machine, {.name = "cycle", .rows = 1000, .cols = 4},
                                             Placement::on_host(1000));
    tensor.close(run.machine);
  }
  EXPECT_EQ(entries_of("/proc/self/fd"), descriptors);
  EXPECT_LT(mappings(), mapped + 20) << "MPI may have mapped some, but not one a cycle";
}

TEST(ChunkTensorOnHost, MayBeEmpty) {
  const RunSetup run(0);
  expect_gathers(run.machine, {DType::f32, 4, Placement::on_host(0), 1});
  expect_gathers(run.machine, {DType::f32, 0, Placement::on_host(10), 1});
}

TEST(ChunkTensorOnHost, RefusesRowsThatItDoesNotHave) {
  const RunSetup run(0);
  ChunkTensor tensor =
      ChunkTensor::create(run.machine, {.name = "features", .rows = 10, .cols = 2}, Placement::on_host(10));
  const std::vector<float> rows(4);
  EXPECT_THROW(tensor.write_rows(9, 2, rows.data()), Error);
  EXPECT_THROW(tensor.write_rows(-1, 2, rows.data()), Error);
  const std::vector<NodeId> ids{3, 110};
  tensor.check_ids(true);
  try {
    test::gathered(tensor, {}, ids, {.first = 100});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                testing::AnyOf(HasSubstr("id 3 is not a row of \"features\", whose ids are 100 to 109"),
                               HasSubstr("id 110 is not a row")));
  }
  tensor.close(run.machine);
}

TEST(ChunkTensorOnHost, NamesWhatDoesNotFit) {
  const RunSetup run(0);
  try {
    ChunkTensor::create(run.machine, {.name = "features", .rows = Count{1} << 36, .cols = 4000},
                        Placement::on_host(Count{1} << 36));
    FAIL() << "accepted";
  } catch (const OutOfMemory& error) {
    EXPECT_THAT(error.what(), HasSubstr("\"features\""));
    EXPECT_THAT(error.what(), HasSubstr("wanted"));
  }
}

}  // namespace
}  // namespace strata::tensor
