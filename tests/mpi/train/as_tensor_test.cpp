// SPDX-License-Identifier: Apache-2.0
#include "as_tensor.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <cstring>

#include "support/random_dataset.hpp"
#include "support/run_setup.hpp"

namespace strata::train {
namespace {

using test::RunSetup;

struct Type {
  DType stored;
  at::ScalarType torch;
};

class AsTensor : public testing::TestWithParam<Type> {};

TEST_P(AsTensor, ShowsTheRowsInPlace) {
  const RunSetup run(0);
  for (const bool padded : {false, true}) {
    const tensor::TensorSpec spec{
        .name = "table", .rows = 70, .cols = 5, .dtype = GetParam().stored, .padded = padded};
    auto table = tensor::ChunkTensor::create(run.machine, spec, tensor::Placement::on_host(spec.rows));
    const test::RandomValues values = test::random_values(spec.rows * spec.cols, spec.dtype, 3);
    if (run.machine.rank() == 0) table.write_rows(0, spec.rows, values.bytes.data());
    table.fence(run.machine, {});

    ASSERT_EQ(table.views().size(), 1u);
    const at::Tensor tensor = as_tensor(spec, table.views().front());
    EXPECT_EQ(tensor.scalar_type(), GetParam().torch);
    EXPECT_TRUE(tensor.device().is_cpu());
    EXPECT_EQ(tensor.sizes(), (at::IntArrayRef{70, 5}));
    const auto row_elements = static_cast<std::int64_t>(padded ? 128 / size_of(spec.dtype) : 5);
    EXPECT_EQ(tensor.strides(), (at::IntArrayRef{row_elements, 1}));
    EXPECT_EQ(tensor.data_ptr(), table.views().front().data);
    const at::Tensor dense = tensor.contiguous();
    EXPECT_EQ(std::memcmp(dense.data_ptr(), values.bytes.data(), values.bytes.size()), 0);
    table.close(run.machine);
  }
}

TEST_P(AsTensor, WritesThrough) {
  const RunSetup run(0);
  const tensor::TensorSpec spec{.name = "table", .rows = 3, .cols = 2, .dtype = GetParam().stored};
  auto table = tensor::ChunkTensor::create(run.machine, spec, tensor::Placement::on_host(spec.rows));
  if (run.machine.rank() == 0) {
    at::Tensor tensor = as_tensor(spec, table.views().front());
    tensor.copy_(at::arange(6).view({3, 2}));
  }
  table.fence(run.machine, {});
  std::vector<std::byte> row(spec.row_bytes());
  table.read_rows(2, 1, row.data());
  const at::Tensor expected = at::arange(4, 6).to(GetParam().torch);
  EXPECT_EQ(std::memcmp(row.data(), expected.data_ptr(), row.size()), 0);
  table.fence(run.machine, {});
  table.close(run.machine);
}

INSTANTIATE_TEST_SUITE_P(Types, AsTensor,
                         testing::Values(Type{DType::f32, at::kFloat}, Type{DType::f16, at::kHalf},
                                         Type{DType::bf16, at::kBFloat16}, Type{DType::f64, at::kDouble},
                                         Type{DType::i8, at::kChar}, Type{DType::u8, at::kByte},
                                         Type{DType::i32, at::kInt}, Type{DType::i64, at::kLong}));

}  // namespace
}  // namespace strata::train
