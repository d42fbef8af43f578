#include "shuffle_batch.hpp"

#include <algorithm>
#include <utility>

// One clone for each vector width, chosen when the program is loaded. Sanitizers run before such choices can
// be made.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define STRATA_VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define STRATA_VECTOR_CLONES
#endif

namespace strata::sampling {
namespace {

constexpr std::size_t kBlock = ShuffleBatch::kBlock;

// Shuffle::walk() with the parameters of each lane. Each half of a round goes over a whole block, so that
// several vectors multiply at the same time. REQUIRES: room for num_lanes rounded up to a block.
STRATA_VECTOR_CLONES
void walk(std::uint32_t* __restrict__ position, const std::uint32_t* __restrict__ low_bits,
          const std::uint32_t* __restrict__ low_mask, const std::uint32_t* __restrict__ high_mask,
          const std::uint32_t* __restrict__ k0, const std::uint32_t* __restrict__ k1, std::size_t num_lanes) {
  std::uint32_t high[kBlock], low[kBlock];
  for (std::size_t b = 0; b < num_lanes; b += kBlock) {
    for (std::size_t i = 0; i < kBlock; ++i) {
      high[i] = position[b + i] >> low_bits[b + i];
      low[i] = position[b + i] & low_mask[b + i];
    }
    for (std::uint32_t round = 0; round < Shuffle::kRounds; round += 2) {
      for (std::size_t i = 0; i < kBlock; ++i) {
        low[i] = (low[i] ^ mix32(high[i] * 0x9E3779B9u + k0[b + i] + round)) & low_mask[b + i];
      }
      for (std::size_t i = 0; i < kBlock; ++i) {
        high[i] = (high[i] ^ mix32(low[i] * 0x85EBCA6Bu + k1[b + i] + round)) & high_mask[b + i];
      }
    }
    for (std::size_t i = 0; i < kBlock; ++i) position[b + i] = (high[i] << low_bits[b + i]) | low[i];
  }
}

}  // namespace

void ShuffleBatch::Lanes::resize(std::size_t count) {
  for (auto* values : {&position, &size, &low_bits, &low_mask, &high_mask, &k0, &k1}) values->resize(count);
}

void ShuffleBatch::Lanes::copy(std::size_t to, std::size_t from) {
  for (auto* values : {&position, &size, &low_bits, &low_mask, &high_mask, &k0, &k1})
    (*values)[to] = (*values)[from];
}

void ShuffleBatch::grow(std::size_t size) {
  const std::size_t room = std::max(size, 2 * positions_.size());
  lanes_.resize(room);
  slots_.resize(room);
  outside_.resize(room);
  positions_.resize(room);
}

std::size_t ShuffleBatch::add(const Shuffle& shuffle, int count) {
  const std::size_t first = size_;
  size_ += static_cast<std::size_t>(count);
  if (size_ + kBlock > positions_.size()) grow(size_ + kBlock);
  if (shuffle.is_small()) {
    Deck deck = shuffle.deck();
    for (std::size_t j = first; j < size_; ++j) positions_[j] = deck.deal();
    return first;
  }
  for (std::size_t done = 0; done < static_cast<std::size_t>(count); done += kGroup) {
    for (std::size_t j = 0; j < kGroup;
         ++j) {  // whole vectors: what is too much is overwritten by the next node
      const std::size_t lane = num_lanes_ + done + j;
      lanes_.position[lane] = static_cast<std::uint32_t>(done + j);
      lanes_.size[lane] = static_cast<std::uint32_t>(shuffle.size);
      lanes_.low_bits[lane] = static_cast<std::uint32_t>(shuffle.low_bits);
      lanes_.low_mask[lane] = shuffle.low_mask;
      lanes_.high_mask[lane] = shuffle.high_mask;
      lanes_.k0[lane] = shuffle.k0;
      lanes_.k1[lane] = shuffle.k1;
      slots_[lane] = static_cast<std::uint32_t>(first + done + j);
    }
  }
  num_lanes_ += static_cast<std::size_t>(count);
  return first;
}

void ShuffleBatch::run() {
  std::size_t num_lanes = std::exchange(num_lanes_, 0);
  while (num_lanes > 0) {
    walk(lanes_.position.data(), lanes_.low_bits.data(), lanes_.low_mask.data(), lanes_.high_mask.data(),
         lanes_.k0.data(), lanes_.k1.data(), num_lanes);
    num_lanes = settle(num_lanes);
  }
}

// Every lane writes its position; those outside are moved to the front. Returns how many.
std::size_t ShuffleBatch::settle(std::size_t num_lanes) {
  std::size_t num_outside = 0;
  for (std::size_t i = 0; i < num_lanes; ++i) {
    positions_[slots_[i]] = lanes_.position[i];
    outside_[num_outside] = static_cast<std::uint32_t>(i);
    num_outside += lanes_.position[i] >= lanes_.size[i];
  }
  for (std::size_t i = 0; i < num_outside; ++i) {
    lanes_.copy(i, outside_[i]);
    slots_[i] = slots_[outside_[i]];
  }
  return num_outside;
}

}  // namespace strata::sampling
