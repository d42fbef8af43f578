// SPDX-License-Identifier: Apache-2.0
#include "registered_blocks.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <vector>

#include "strata/cuda/buffer.hpp"

namespace strata::cuda {
namespace {

const std::byte* at(std::uintptr_t address) { return reinterpret_cast<const std::byte*>(address); }

TEST(RegisteredBlocks, EndAtMultiplesOfTheirSize) {
  EXPECT_EQ(bytes_to_end(at(70), 64), 58u);
  EXPECT_EQ(bytes_to_end(at(128), 64), 64u);
  EXPECT_FALSE(crosses_end(at(70), 58, 64));
  EXPECT_TRUE(crosses_end(at(70), 59, 64));
}

TEST(RegisteredBlocks, PiecesCoverACopyAndCrossNoEnd) {
  std::mt19937_64 random(7);
  for (int trial = 0; trial < 1000; ++trial) {
    const std::size_t block = 64u << random() % 3, bytes = random() % 1000;
    const std::byte *to = at(4096 + random() % 500), *from = at(9000 + random() % 500);
    std::size_t done = 0;
    for_each_piece(to, from, bytes, block, [&](std::size_t offset, std::size_t size) {
      EXPECT_EQ(offset, done);
      ASSERT_GT(size, 0u);
      EXPECT_FALSE(crosses_end(to + offset, size, block));
      EXPECT_FALSE(crosses_end(from + offset, size, block));
      done = offset + size;
    });
    EXPECT_EQ(done, bytes);
  }
}

TEST(RegisteredBlocks, ACopyWithinABlockIsOnePiece) {
  int pieces = 0;
  for_each_piece(at(64), at(192), 64, 64, [&](std::size_t, std::size_t) { ++pieces; });
  EXPECT_EQ(pieces, 1);
}

TEST(CopyRows, MovesPitchedRowsOnTheCpu) {
  constexpr std::size_t kRows = 7, kWidth = 5, kFrom = 9, kTo = 6;
  std::vector<std::byte> from(kRows * kFrom), to(kRows * kTo, std::byte{0xEE});
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i);
  copy_rows_async({.to = {to.data(), kTo}, .from = {from.data(), kFrom}, .row_bytes = kWidth, .rows = kRows},
                  {});
  for (std::size_t row = 0; row < kRows; ++row) {
    for (std::size_t col = 0; col < kWidth; ++col) EXPECT_EQ(to[row * kTo + col], from[row * kFrom + col]);
    EXPECT_EQ(to[row * kTo + kWidth], std::byte{0xEE}) << "between rows nothing is written";
  }
}

}  // namespace
}  // namespace strata::cuda
