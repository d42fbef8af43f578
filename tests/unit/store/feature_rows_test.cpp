// SPDX-License-Identifier: Apache-2.0
#include "load/feature_rows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "strata/util/error.hpp"

namespace strata::store {
namespace {

using testing::HasSubstr;

RowBlock block_of(std::vector<float>& values, Count cols) {
  return {reinterpret_cast<std::byte*>(values.data()), std::ssize(values) / cols, cols, DType::f32};
}

std::string describe(Count row) { return "part.h5: row " + std::to_string(row); }

std::string refusal_of(const RowBlock& block) {
  try {
    check_rows(block, describe);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(CheckRows, NamesTheFirstBadValue) {
  std::vector<float> values(12, 1.0f);
  EXPECT_EQ(refusal_of(block_of(values, 3)), "accepted");
  values[7] = std::nanf("");
  values[9] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(refusal_of(block_of(values, 3)), "part.h5: row 2: feature 1 is NaN");
  values[7] = std::numeric_limits<float>::max();
  EXPECT_EQ(refusal_of(block_of(values, 3)), "part.h5: row 3: feature 0 is infinite");
}

TEST(CheckRows, KnowsHalfTypes) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const auto encode = dtype == DType::f16 ? f32_to_f16 : f32_to_bf16;
    std::vector<std::uint16_t> values(6, encode(-2.5f));
    const RowBlock block{reinterpret_cast<std::byte*>(values.data()), 3, 2, dtype};
    EXPECT_EQ(refusal_of(block), "accepted");
    values[3] = encode(std::nanf(""));
    EXPECT_EQ(refusal_of(block), "part.h5: row 1: feature 1 is NaN");
  }
}

TEST(CheckRows, RefusesIntegers) {
  std::vector<std::int32_t> values(4);
  const RowBlock block{reinterpret_cast<std::byte*>(values.data()), 2, 2, DType::i32};
  EXPECT_THAT(refusal_of(block), HasSubstr("i32"));
}

TEST(NormalizeRows, ScalesToAnAbsoluteSumOfOne) {
  std::vector<float> values{1, -3, 0, 0, 0.25f, 0.25f};
  normalize_rows(block_of(values, 2));
  EXPECT_THAT(values, testing::ElementsAre(0.25f, -0.75f, 0, 0, 0.5f, 0.5f));
  std::vector<std::uint16_t> halves{f32_to_bf16(2), f32_to_bf16(6)};
  normalize_rows({reinterpret_cast<std::byte*>(halves.data()), 1, 2, DType::bf16});
  EXPECT_EQ(bf16_to_f32(halves[0]), 0.25f);
  EXPECT_EQ(bf16_to_f32(halves[1]), 0.75f);
}

}  // namespace
}  // namespace strata::store
