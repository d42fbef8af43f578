// SPDX-License-Identifier: Apache-2.0
#include "strata/util/random.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace strata {
namespace {

struct KnownAnswer {
  Philox4 counter;
  std::uint64_t key;
  Philox4 words;
};

TEST(Philox, GivesTheKnownAnswersOfRandom123) {
  const KnownAnswer answers[] = {{{{0, 0, 0, 0}}, 0, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
                                 {{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}},
                                  0xffffffffffffffffull,
                                  {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
                                 {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
                                  0x299f31d0a4093822ull,  // the key's low word comes first
                                  {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}}};
  for (const KnownAnswer& answer : answers) {
    const Philox4 words = philox(answer.counter, answer.key);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(words.word[i], answer.words.word[i]) << "word " << i;
  }
}

TEST(NodeKey, DependsOnAllThatItIsFor) {
  const BatchKey batch{.seed = 1, .epoch = 2, .step = 3};
  std::set<std::uint64_t> keys;
  const auto add = [&](const BatchKey& b, RandomUse use, std::uint32_t layer, std::int64_t node,
                       std::uint16_t relation = 0) {
    EXPECT_TRUE(keys.insert(node_key(b, use, layer, node, relation)).second);
    EXPECT_EQ(node_key(b, use, layer, node, relation), node_key(b, use, layer, node, relation));
  };
  add(batch, RandomUse::sample, 0, 7);
  add(batch, RandomUse::dropout, 0, 7);
  add(batch, RandomUse::sample, 1, 7);
  add(batch, RandomUse::sample, 0, 8);
  add(batch, RandomUse::sample, 0, 7, 1);
  add(batch, RandomUse::sample, 0, 7, 0xffff);
  add(batch, RandomUse::sample, 0, 7 + (std::int64_t{1} << 32));
  add({.seed = 2, .epoch = 2, .step = 3}, RandomUse::sample, 0, 7);
  add({.seed = 1, .epoch = 3, .step = 3}, RandomUse::sample, 0, 7);
  add({.seed = 1, .epoch = 2, .step = 4}, RandomUse::sample, 0, 7);
}

TEST(Shuffled, IsAPermutation) {
  for (const std::uint64_t size : {1u, 2u, 3u, 15u, 16u, 17u, 31u, 100u, 1000u, 4097u}) {
    for (const std::uint64_t key : {0ull, 1ull, 0x123456789abcdefull}) {
      std::vector<int> seen(size);
      for (std::uint64_t j = 0; j < size; ++j) {
        const std::uint64_t element = shuffled(j, size, key);
        ASSERT_LT(element, size) << "size " << size << " key " << key;
        ++seen[element];
      }
      for (const int times : seen) ASSERT_EQ(times, 1) << "size " << size << " key " << key;
    }
  }
}

TEST(Shuffled, StaysInsideLargeRanges) {
  constexpr std::uint64_t kSize = (std::uint64_t{1} << 39) + 12345;
  std::set<std::uint64_t> seen;
  for (std::uint64_t j = 0; j < 1000; ++j) {
    const std::uint64_t element = shuffled(kSize - 1 - j, kSize, 42);
    EXPECT_LT(element, kSize);
    EXPECT_TRUE(seen.insert(element).second);
  }
}

TEST(UnitDouble, LiesBelowOne) {
  EXPECT_EQ(unit_double(0), 0);
  EXPECT_EQ(unit_double(std::uint64_t{1} << 63), 0.5);
  EXPECT_LT(unit_double(~std::uint64_t{0}), 1);
}

}  // namespace
}  // namespace strata
