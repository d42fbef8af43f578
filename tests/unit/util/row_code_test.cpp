// SPDX-License-Identifier: Apache-2.0
#include "strata/util/row_code.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

namespace strata {
namespace {

using Kind = RowCode::Kind;

std::vector<float> random_rows(Count rows, Count cols, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(at(rows * cols));
  for (float& value : values) value = normal(random);
  return values;
}

/// Encodes into poisoned bytes, with a guard behind them.
std::vector<std::byte> encoded(const RowCode& code, const float* row) {
  constexpr std::byte kPoison{0xFB};
  const auto bytes = at(code.row_bytes());
  std::vector<std::byte> coded(bytes + 8, kPoison);
  code.encode(row, coded.data());
  EXPECT_TRUE(std::all_of(coded.begin() + static_cast<std::ptrdiff_t>(bytes), coded.end(), [](std::byte b) {
    return b == kPoison;
  })) << "wrote behind the code";
  coded.resize(bytes);
  return coded;
}

std::vector<float> decoded(const RowCode& code, const std::vector<std::byte>& coded) {
  std::vector<float> row(at(code.cols) + 1, -77.0F);
  code.decode(coded.data(), row.data());
  EXPECT_EQ(row.back(), -77.0F) << "wrote behind the row";
  row.pop_back();
  return row;
}

TEST(RowCode, TakesTheBytesThatItsHeaderTells) {
  const auto bytes = [](Kind kind, Count cols) { return RowCode{.kind = kind, .cols = cols}.row_bytes(); };
  EXPECT_EQ(bytes(Kind::i8, 128), 132);
  EXPECT_EQ(bytes(Kind::e4m3, 5), 12);
  EXPECT_EQ(bytes(Kind::i4, 128), 68);
  EXPECT_EQ(bytes(Kind::vq, 128), 32);
  EXPECT_EQ(bytes(Kind::i8, 5), 12);
  EXPECT_EQ(bytes(Kind::i4, 9), 12);
  EXPECT_EQ(bytes(Kind::vq, 17), 8);
}

TEST(RowCode, HasTheLayoutOfItsExample) {
  const float row[] = {0.5F, -2, 1};
  const std::vector<std::byte> coded = encoded({.kind = Kind::i8, .cols = 3}, row);
  EXPECT_THAT(std::vector<int>({static_cast<std::int8_t>(coded[4]), static_cast<std::int8_t>(coded[5]),
                                static_cast<std::int8_t>(coded[6]), static_cast<std::int8_t>(coded[7])}),
              testing::ElementsAre(32, -127, 63, 0));
  const std::vector<std::byte> nibbles = encoded({.kind = Kind::i4, .cols = 3}, row);
  EXPECT_EQ(nibbles[4], std::byte{0x92});  // 2, then -7
  EXPECT_EQ(nibbles[5], std::byte{0x03});  // 3.4999
}

TEST(RowCode, IsNearerThanHalfAStep) {
  for (const auto& [kind, levels] : {std::pair{Kind::i8, 127.0F}, std::pair{Kind::i4, 7.0F}}) {
    for (const Count cols : {1, 2, 3, 7, 8, 9, 33, 128}) {
      const RowCode code{.kind = kind, .cols = cols};
      const std::vector<float> row = random_rows(1, cols, 5);
      const std::vector<float> again = decoded(code, encoded(code, row.data()));
      float largest = 0;
      for (const float value : row) largest = std::max(largest, std::abs(value));
      for (std::size_t c = 0; c < row.size(); ++c)
        EXPECT_NEAR(again[c], row[c], largest / levels * 0.5001F) << name_of(kind) << " " << cols;
    }
  }
}

TEST(RowCode, GivesDecodedRowsTheSameCode) {
  const std::vector<float> rows = random_rows(200, 33, 6);
  ThreadPool pool(2);
  const RowCode trained = train_vector_code(rows.data(), 200, 33, 1, pool);
  for (RowCode code : {RowCode{.kind = Kind::i8, .cols = 33}, RowCode{.kind = Kind::e4m3, .cols = 33},
                       RowCode{.kind = Kind::i4, .cols = 33}, trained}) {
    for (std::size_t r = 0; r < 200; ++r) {
      const std::vector<std::byte> coded = encoded(code, rows.data() + r * 33);
      EXPECT_EQ(encoded(code, decoded(code, coded).data()), coded) << name_of(code.kind) << ", row " << r;
    }
  }
}

TEST(RowCode, KeepsRowsOfZerosAndRefusesWhatOverflows) {
  for (const Kind kind : {Kind::i8, Kind::e4m3, Kind::i4}) {
    const RowCode code{.kind = kind, .cols = 2};
    const float zeros[] = {0, 0}, tiny[] = {1e-40F, 0}, huge[] = {3.4e38F, -3.4e38F};
    EXPECT_EQ(decoded(code, encoded(code, zeros)), std::vector<float>({0, 0}));
    EXPECT_EQ(decoded(code, encoded(code, tiny)), std::vector<float>({0, 0}));
    EXPECT_TRUE(code.is_finite(encoded(code, zeros).data()));
    EXPECT_FALSE(code.is_finite(encoded(code, huge).data()));
  }
}

/// All finite magnitudes of e4m3, from its definition.
std::vector<double> e4m3_magnitudes() {
  std::vector<double> values;
  for (int exponent = 0; exponent < 16; ++exponent)
    for (int mantissa = 0; mantissa < 8; ++mantissa)
      values.push_back(exponent == 0 ? mantissa / 8.0 / 64 : (1 + mantissa / 8.0) * std::exp2(exponent - 7));
  values.pop_back();  // NaN
  return values;
}

TEST(RowCode, KeepsRowsOfFp8) {
  const std::vector<double> values = e4m3_magnitudes();
  ASSERT_EQ(values.back(), 448);
  std::vector<float> row;
  for (const double value : values)
    row.insert(row.end(), {static_cast<float>(value), -static_cast<float>(value)});
  const RowCode code{.kind = Kind::e4m3, .cols = std::ssize(row)};
  const std::vector<std::byte> coded = encoded(code, row.data());
  EXPECT_EQ(decoded(code, coded), row);
  for (std::size_t i = 0; i < row.size(); ++i)  // the bytes are those of FP8, for the scale is 1
    EXPECT_EQ(std::to_integer<std::size_t>(coded[4 + i]), i / 2 + i % 2 * 128);
  for (float& value : row) value *= 0x1p-40F;
  EXPECT_EQ(decoded(code, encoded(code, row.data())), row);
}

TEST(RowCode, TakesTheNearestFp8OfARow) {
  const std::vector<double> values = e4m3_magnitudes();
  const RowCode code{.kind = Kind::e4m3, .cols = 37};
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    std::vector<float> row = random_rows(1, code.cols, seed);
    row[0] = std::ldexp(1.0F + static_cast<float>(seed) / 50, static_cast<int>(seed % 30) - 15);
    const std::vector<std::byte> coded = encoded(code, row.data());
    float scale = 0;
    std::memcpy(&scale, coded.data(), sizeof(scale));
    EXPECT_EQ(std::exp2(std::ilogb(scale)), scale);
    const std::vector<float> again = decoded(code, coded);
    for (std::size_t c = 0; c < row.size(); ++c) {
      const double wanted = std::abs(row[c]) / static_cast<double>(scale);
      double nearest = values.front();
      for (const double value : values)
        if (std::abs(value - wanted) < std::abs(nearest - wanted)) nearest = value;
      EXPECT_NEAR(std::abs(again[c]) / scale, nearest, std::abs(nearest - wanted) * 1e-6) << row[c];
      EXPECT_EQ(std::signbit(again[c]), std::signbit(row[c]));
    }
  }
  const float row[] = {1, 448}, halves[] = {0.5F, -2, 1};
  std::vector<std::byte> damaged = encoded({.kind = Kind::e4m3, .cols = 2}, row);
  damaged[4] = std::byte{0xFF};
  EXPECT_FALSE((RowCode{.kind = Kind::e4m3, .cols = 2}.is_finite(damaged.data())));
  EXPECT_EQ(decoded({.kind = Kind::e4m3, .cols = 3}, encoded({.kind = Kind::e4m3, .cols = 3}, halves)),
            std::vector<float>(halves, halves + 3));
}

TEST(VectorCode, KeepsFewCombinationsExactly) {
  std::mt19937_64 random(7);
  std::vector<float> rows(at(3000 * 10));  // four binary columns: 16 combinations
  for (float& value : rows) value = static_cast<float>(random() % 2);
  ThreadPool pool(2);
  const RowCode code = train_vector_code(rows.data(), 3000, 10, 3, pool);
  for (std::size_t r = 0; r < 3000; ++r) {
    const std::vector<float> row(rows.begin() + static_cast<std::ptrdiff_t>(r * 10),
                                 rows.begin() + static_cast<std::ptrdiff_t>(r * 10 + 10));
    ASSERT_EQ(decoded(code, encoded(code, row.data())), row);
  }
}

TEST(VectorCode, ComesAsNearAtEveryScale) {
  const Count num_rows = 600, cols = 6;  // the second group is half empty
  ThreadPool pool(2);
  const auto relative_error = [&](float scale) {
    std::vector<float> rows = random_rows(num_rows, cols, 9);
    for (float& value : rows) value *= scale;
    const RowCode code = train_vector_code(rows.data(), num_rows, cols, 4, pool);
    double error = 0, all = 0;
    for (Count r = 0; r < num_rows; ++r) {
      const std::vector<float> again = decoded(code, encoded(code, rows.data() + r * cols));
      for (Count c = 0; c < cols; ++c) {
        const auto value = static_cast<double>(rows[at(r * cols + c)]);
        error += std::pow(static_cast<double>(again[at(c)]) - value, 2);
        all += value * value;
      }
    }
    return error / all;
  };
  const double usual = relative_error(1);
  EXPECT_LT(usual, 0.1);
  for (const float scale : {0x1p-100F, 0x1p-70F, 0x1p64F, 0x1p120F})
    EXPECT_NEAR(relative_error(scale), usual, 0.01) << scale;
}

TEST(VectorCode, DependsOnItsArgumentsOnlyAndComesNear) {
  const Count num_rows = 2000, cols = 8;
  const std::vector<float> rows = random_rows(num_rows, cols, 8);
  ThreadPool one(1), three(3);
  const RowCode code = train_vector_code(rows.data(), num_rows, cols, 4, one);
  EXPECT_EQ(*code.codebooks, *train_vector_code(rows.data(), num_rows, cols, 4, three).codebooks);
  EXPECT_NE(*code.codebooks, *train_vector_code(rows.data(), num_rows, cols, 5, one).codebooks);
  double error = 0;
  for (Count r = 0; r < num_rows; ++r) {
    const std::vector<float> again = decoded(code, encoded(code, rows.data() + r * cols));
    for (Count c = 0; c < cols; ++c) {
      const double difference = again[at(c)] - rows[at(r * cols + c)];
      error += difference * difference;
    }
  }
  // A Gaussian in 4 dimensions at 2 bits per dimension: 2^-4 of the variance at best (Shannon), here 0.1.
  EXPECT_LT(error / static_cast<double>(num_rows * cols), 0.13);
}

}  // namespace
}  // namespace strata
