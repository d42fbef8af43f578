// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "host_path/host_rows_cpu.hpp"
#include "strata/util/types.hpp"

namespace strata::tensor {
namespace {

constexpr std::byte kPoison{0xFB};
constexpr std::size_t kGuard = 64;  // bytes around the output that must stay as they are

struct RowCase {
  std::size_t row_bytes, row_pitch;
  std::size_t source_offset, out_offset;  // from a multiple of 64
  Count rows = 40, count = 70;
};

std::vector<std::byte> random_bytes(std::size_t size, std::mt19937_64& random) {
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

std::byte* aligned(std::vector<std::byte>& bytes) {
  const std::size_t over = reinterpret_cast<std::uintptr_t>(bytes.data()) % 64;
  return bytes.data() + (64 - over) % 64;
}

template <typename Number>
void expect_copies(const RowCase& c, std::uint64_t seed) {
  SCOPED_TRACE(testing::Message() << "rows of " << c.row_bytes << " bytes, pitch " << c.row_pitch
                                  << ", offsets " << c.source_offset << " and " << c.out_offset << ", seed "
                                  << seed);
  std::mt19937_64 random(seed);
  const auto rows = static_cast<std::size_t>(c.rows), count = static_cast<std::size_t>(c.count);
  // The last row ends where the memory ends, so that a sanitizer sees reads beyond it.
  const std::size_t source_bytes = (rows - 1) * c.row_pitch + c.row_bytes;
  std::vector<std::byte> padded = random_bytes(c.source_offset + source_bytes, random);
  const std::byte* source = padded.data() + c.source_offset;
  std::vector<Number> numbers(count);
  for (Number& number : numbers) {
    number = random() % 8 == 0 ? kNoRow<Number> : static_cast<Number>(random() % rows);
  }
  numbers.back() = static_cast<Number>(rows - 1);

  const std::vector<std::byte> zeros(c.row_bytes);
  for (const RowStores stores : {RowStores::streaming, RowStores::cached}) {
    std::vector<std::byte> target(kGuard * 3 + c.out_offset + count * c.row_bytes, kPoison);
    std::byte* out = aligned(target) + kGuard + c.out_offset;
    copy_rows({.data = source, .row_bytes = c.row_bytes, .row_pitch = c.row_pitch},
              std::span<const Number>(numbers), out, stores);
    for (std::size_t i = 0; i < count; ++i) {
      const std::byte* expected =
          numbers[i] == kNoRow<Number> ? zeros.data() : source + numbers[i] * c.row_pitch;
      ASSERT_EQ(std::memcmp(out + i * c.row_bytes, expected, c.row_bytes), 0) << "row " << i;
    }
    const std::byte* end = target.data() + target.size();
    for (const std::byte* at = target.data(); at < out; ++at) ASSERT_EQ(*at, kPoison) << "before the output";
    for (const std::byte* at = out + count * c.row_bytes; at < end; ++at)
      ASSERT_EQ(*at, kPoison) << "behind the output";
  }
}

TEST(HostRows, CopiesRowsOfEveryLength) {
  for (std::size_t bytes = 1; bytes <= 600; ++bytes) {
    expect_copies<std::uint32_t>(
        {.row_bytes = bytes, .row_pitch = bytes, .source_offset = 0, .out_offset = 0}, bytes);
    expect_copies<std::uint64_t>(
        {.row_bytes = bytes, .row_pitch = bytes + bytes % 5, .source_offset = 0, .out_offset = 0}, bytes);
  }
}

TEST(HostRows, CopiesFromAndToAnyAlignment) {
  for (const std::size_t bytes : {1, 4, 16, 31, 32, 48, 64, 128, 400, 512, 4096}) {
    for (const std::size_t from : {0, 1, 8, 16}) {
      for (const std::size_t to : {0, 1, 2, 4, 8, 16, 32, 48}) {
        expect_copies<std::uint32_t>(
            {.row_bytes = bytes, .row_pitch = bytes, .source_offset = from, .out_offset = to},
            bytes * 100 + from + to);
      }
    }
  }
}

TEST(HostRows, CopiesNothing) {
  std::byte out = kPoison;
  copy_rows({.data = nullptr, .row_bytes = 4, .row_pitch = 4}, std::span<const std::uint32_t>(), &out,
            RowStores::streaming);
  const std::uint32_t number = 0;
  copy_rows({.data = nullptr, .row_bytes = 0, .row_pitch = 0}, std::span(&number, 1), &out,
            RowStores::cached);
  EXPECT_EQ(out, kPoison);
}

}  // namespace
}  // namespace strata::tensor
