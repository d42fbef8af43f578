// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "strata/util/files.hpp"

namespace strata {
namespace {

TEST(Hash, IsXxh3) {
  EXPECT_EQ(hash_bytes("", 0), 0x2D06800538D394C2ull);  // XXH3_64bits of nothing, seed 0
  EXPECT_EQ(Hasher().digest(), 0x2D06800538D394C2ull);
}

TEST(Hash, DoesNotDependOnThePieces) {
  std::string bytes;
  for (int i = 0; i < 5000; ++i) bytes += static_cast<char>(i * 7 + i / 256);
  const std::uint64_t whole = hash_bytes(bytes.data(), bytes.size());
  for (const std::size_t piece : {std::size_t{1}, std::size_t{13}, std::size_t{1024}, bytes.size()}) {
    Hasher hasher;
    hasher.update(nullptr, 0);
    for (std::size_t at = 0; at < bytes.size(); at += piece)
      hasher.update(bytes.data() + at, std::min(piece, bytes.size() - at));
    EXPECT_EQ(hasher.digest(), whole) << "pieces of " << piece;
  }
}

TEST(Hash, GoesOnAfterADigestAndAMove) {
  Hasher first;
  first.update("ab", 2);
  EXPECT_EQ(first.digest(), hash_bytes("ab", 2));
  Hasher second = std::move(first);
  second.update("cd", 2);
  EXPECT_EQ(second.digest(), hash_bytes("abcd", 4));
}

TEST(Hash, ChangesWithEveryBit) {
  std::string bytes(64, '\0');
  std::set<std::uint64_t> seen = {hash_bytes(bytes.data(), bytes.size())};
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string changed = bytes;
    changed[bit / 8] = static_cast<char>(1 << (bit % 8));
    EXPECT_TRUE(seen.insert(hash_bytes(changed.data(), changed.size())).second) << bit;
  }
}

TEST(Hash, IsWrittenWithSixteenDigits) {
  EXPECT_EQ(hex64(0), "0000000000000000");
  EXPECT_EQ(hex64(0xABCDEF0123456789ull), "abcdef0123456789");
}

}  // namespace
}  // namespace strata
