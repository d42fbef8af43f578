// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#if defined(__CUDACC__)
#define STRATA_HOST_DEVICE __host__ __device__
#else
#define STRATA_HOST_DEVICE
#endif

/// Keyed randomness: a choice depends on what it is for, never on who makes it or when. CPU and GPU compute
/// the same bits.
namespace strata {

/// The part of a key that all random choices of one training step share.
struct BatchKey {
  std::uint64_t seed = 0;  ///< of the run
  std::uint32_t epoch = 0;
  std::uint32_t step = 0;  ///< global step, counted over the whole run
};

/// Different uses of the same (batch, layer, node) must not share bits.
enum class RandomUse : std::uint32_t {
  sample = 1,
  dropout = 2,
  epoch_order = 3,
  generator = 4,
  init = 5,
  source = 6,
  attention = 7,
  negative = 8
};

struct Philox4 {
  std::uint32_t word[4];
};

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11).
STRATA_HOST_DEVICE inline Philox4 philox(Philox4 counter, std::uint64_t key) {
  std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = 0xD2511F53ull * counter.word[0];
    const std::uint64_t p1 = 0xCD9E8D57ull * counter.word[2];
    counter = {{static_cast<std::uint32_t>(p1 >> 32) ^ counter.word[1] ^ k0, static_cast<std::uint32_t>(p1),
                static_cast<std::uint32_t>(p0 >> 32) ^ counter.word[3] ^ k1, static_cast<std::uint32_t>(p0)}};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return counter;
}

/// Four keyed words for (batch, use, layer, node, relation). `node` is an ORIGINAL id; `layer` counts hops
/// from the seeds, below 256; `relation` is the number of a relation, 0 in a graph of one.
STRATA_HOST_DEVICE inline Philox4 keyed_words(const BatchKey& batch, RandomUse use, std::uint32_t layer,
                                              std::int64_t node, std::uint16_t relation = 0) {
  const std::uint64_t id = static_cast<std::uint64_t>(node);
  const std::uint64_t key = batch.seed ^ (static_cast<std::uint64_t>(use) << 56) ^
                            (static_cast<std::uint64_t>(layer) << 48) ^
                            (static_cast<std::uint64_t>(relation) << 32);
  return philox(
      {{static_cast<std::uint32_t>(id), static_cast<std::uint32_t>(id >> 32), batch.step, batch.epoch}}, key);
}

/// The 64-bit key of a node's bijective shuffle.
STRATA_HOST_DEVICE inline std::uint64_t node_key(const BatchKey& batch, RandomUse use, std::uint32_t layer,
                                                 std::int64_t node, std::uint16_t relation = 0) {
  const Philox4 w = keyed_words(batch, use, layer, node, relation);
  return (static_cast<std::uint64_t>(w.word[1]) << 32) | w.word[0];
}

/// A 32-bit finaliser with low bias (Wellons, "Prospecting for hash functions").
STRATA_HOST_DEVICE inline std::uint32_t mix32(std::uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  x ^= x >> 16;
  return x;
}

STRATA_HOST_DEVICE inline std::uint64_t mix64(std::uint64_t x) {  ///< the finaliser of SplitMix64
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

/// Uniform in [0, 1) with 53 bits.
STRATA_HOST_DEVICE inline double unit_double(std::uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

/// The first positions of a keyed permutation of at most 16 elements, dealt one after another: a Fisher-Yates
/// shuffle of a deck of 4-bit cards in one word. A Feistel network on so few bits is far from uniform (37 %
/// off for pairs of 5).
struct Deck {
  static constexpr std::uint64_t kMaxSize = 16;
  std::uint64_t size;
  std::uint32_t k0, k1;
  std::uint64_t cards = 0xFEDCBA9876543210ull;
  std::uint32_t dealt = 0;

  STRATA_HOST_DEVICE std::uint32_t deal() {  ///< REQUIRES: fewer than size were dealt
    const std::uint64_t left = size - dealt;
    const std::uint32_t bits = mix32(k0 ^ mix32(k1 + dealt * 0x9E3779B9u));
    const std::uint32_t here = 4 * dealt,
                        there = 4 * (dealt + static_cast<std::uint32_t>((bits * left) >> 32));
    const std::uint64_t difference = ((cards >> here) ^ (cards >> there)) & 15u;
    cards ^= difference << here;
    if (there != here) cards ^= difference << there;
    ++dealt;
    return static_cast<std::uint32_t>(cards >> here) & 15u;
  }
};

/// A keyed permutation of [0, size): a Deck if it is small, else a Feistel network, as balanced as possible,
/// on the bits of size - 1. The network is walked along its cycle until it is inside the range (Black and
/// Rogaway, "Ciphers with arbitrary finite domains", 2002).
///
/// It holds what all positions share, so that a node's picks compute it once. Every position is computed on
/// its own, with on average fewer than two walks of sixteen half-rounds; eight half-rounds would leave pairs
/// of 17 to 24 elements 5 to 9 % off. REQUIRES: size < 2^40.
struct Shuffle {
  static constexpr std::uint32_t kRounds = 16;
  std::uint64_t size;
  int low_bits;
  std::uint32_t low_mask, high_mask, k0, k1;

  STRATA_HOST_DEVICE Shuffle(std::uint64_t size_, std::uint64_t key)
      : size(size_), k0(static_cast<std::uint32_t>(key)), k1(static_cast<std::uint32_t>(key >> 32)) {
    const int bits = size < 2 ? 1 : bit_width(size - 1);
    low_bits = (bits + 1) / 2;
    low_mask = (1u << low_bits) - 1u;
    high_mask = (1u << (bits - low_bits)) - 1u;
  }

  STRATA_HOST_DEVICE bool is_small() const { return size <= Deck::kMaxSize; }
  STRATA_HOST_DEVICE Deck deck() const {
    return {.size = size, .k0 = k0, .k1 = k1};
  }  ///< REQUIRES: is_small()

  /// One walk of the network. Word has 32 bits if size <= 2^32 allows it, so that compilers can use vectors.
  template <typename Word>
  STRATA_HOST_DEVICE Word walk(Word x) const {
    std::uint32_t high = static_cast<std::uint32_t>(x >> low_bits),
                  low = static_cast<std::uint32_t>(x) & low_mask;
    for (std::uint32_t round = 0; round < kRounds; round += 2) {
      low = (low ^ mix32(high * 0x9E3779B9u + k0 + round)) & low_mask;
      high = (high ^ mix32(low * 0x85EBCA6Bu + k1 + round)) & high_mask;
    }
    return (static_cast<Word>(high) << low_bits) | low;
  }

  /// The element at position j. Distinct j give distinct elements. REQUIRES: j < size.
  STRATA_HOST_DEVICE std::uint64_t operator()(std::uint64_t j) const {
    if (size < 2) return 0;
    if (is_small()) {
      Deck deck = this->deck();
      for (std::uint64_t i = 0; i < j; ++i) deck.deal();
      return deck.deal();
    }
    std::uint64_t x = j;
    do {
      x = walk(x);
    } while (x >= size);
    return x;
  }

 private:
  STRATA_HOST_DEVICE static int bit_width(std::uint64_t value) {  // REQUIRES: value != 0
#if defined(__CUDA_ARCH__)
    return 64 - __clzll(static_cast<long long>(value));
#else
    return 64 - __builtin_clzll(value);
#endif
  }
};

/// `count` distinct positions of [0, size), where every subset is equally likely: Floyd's algorithm (Bentley
/// and Floyd, "A sample of brilliance", CACM 1987).
///
/// Pick j draws t from [0, first + j]. It takes t, or first + j if an earlier pick took t. REQUIRES: 0 <
/// count < size and admits(size, count).
///
///     size 5, count 3: first = 2; draws 1 of [0, 2], 1 of [0, 3], 3 of [0, 4]  ->  positions 1, 3, 4
struct Subset {
  static constexpr std::int64_t kMaxCount = 32;  // every pick compares its draw with those before it
  static constexpr std::int64_t kMaxSize = 0xFFFFFFFF;

  STRATA_HOST_DEVICE static bool admits(std::int64_t size, std::int64_t count) {
    return count <= kMaxCount && size <= kMaxSize;
  }

  std::uint64_t key;
  std::uint32_t first;

  STRATA_HOST_DEVICE Subset(std::int64_t size, std::int64_t count, std::uint64_t key_)
      : key(key_), first(static_cast<std::uint32_t>(size - count)) {}

  STRATA_HOST_DEVICE std::uint32_t draw(std::uint32_t j) const {
    const std::uint32_t last = first + j;
    return last < kShort ? short_draw(j) : long_draw(j);
  }

  /// Whether all draws of `count` picks are short.
  STRATA_HOST_DEVICE bool is_short(std::uint32_t count) const { return first + (count - 1) < kShort; }
  /// A draw from 32 bits: no position is likelier than another by more than 2^-16.
  STRATA_HOST_DEVICE std::uint32_t short_draw(std::uint32_t j) const {
    const auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
    const std::uint64_t bits = mix32(k0 ^ mix32(k1 + j * 0x9E3779B9u));
    return static_cast<std::uint32_t>((bits * (std::uint64_t{first} + j + 1)) >> 32);
  }

 private:
  static constexpr std::uint32_t kShort = 1u << 16;

  STRATA_HOST_DEVICE std::uint32_t long_draw(std::uint32_t j) const {
    const std::uint64_t bits = mix64(key + j * 0xD1342543DE82EF95ull), size = std::uint64_t{first} + j + 1;
    const std::uint64_t low = ((bits & 0xFFFFFFFFu) * size) >> 32;  // size < 2^32: no sum overflows
    return static_cast<std::uint32_t>(((bits >> 32) * size + low) >> 32);
  }
};

/// Position j of the keyed permutation of [0, size). REQUIRES: j < size, size < 2^40.
STRATA_HOST_DEVICE inline std::uint64_t shuffled(std::uint64_t j, std::uint64_t size, std::uint64_t key) {
  return Shuffle(size, key)(j);
}

}  // namespace strata
