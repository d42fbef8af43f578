// SPDX-License-Identifier: Apache-2.0
#include "loader/array_copies.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"

namespace strata::batches {
namespace {

constexpr Device kGpu{.kind = Device::Kind::cuda, .index = 0};
constexpr Count kGap = 64;  // bytes between arrays, which stay as they are

/// Copies words of one buffer to places that are `shift` words further in another.
void copy_and_check(const std::vector<Count>& words, Count shift) {
  Count bytes = 0;
  for (const Count count : words) bytes += 4 * count + kGap;
  const auto size = static_cast<std::size_t>(bytes + 4 * shift);
  std::vector<std::byte> source(size), expected(size, std::byte{0xEE}), found(size);
  std::mt19937 random(7);
  for (std::byte& byte : source) byte = static_cast<std::byte>(random());

  const cuda::Stream stream(kGpu);
  cuda::Buffer from(cuda::Memory::device, size, "from", kGpu), to(cuda::Memory::device, size, "to", kGpu);
  cuda::copy_async(from.data(), source.data(), size, stream);
  cuda::fill_async(to.data(), 0xEE, size, stream);
  std::vector<ArrayCopy> copies;
  Count at = 0;
  for (const Count count : words) {
    copies.push_back({.to = static_cast<std::byte*>(to.data()) + at + 4 * shift,
                      .from = static_cast<const std::byte*>(from.data()) + at,
                      .bytes = 4 * count});
    std::copy_n(source.begin() + at, 4 * count, expected.begin() + at + 4 * shift);
    at += (4 * count + kGap) / 16 * 16;
  }
  copy_arrays(copies, stream);
  cuda::copy_async(found.data(), to.data(), size, stream);
  stream.synchronize();
  EXPECT_TRUE(found == expected);
}

TEST(ArrayCopies, MoveEveryWordAndNoMore) {
  if (cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
  for (const Count shift : {0, 1, 4}) {
    copy_and_check({0, 1, 3, 4, 5, 8191, 8192, 8193, 100'003}, shift);
    copy_and_check(std::vector<Count>(150, 37), shift);  // of several launches
    copy_and_check({}, shift);
  }
}

}  // namespace
}  // namespace strata::batches
