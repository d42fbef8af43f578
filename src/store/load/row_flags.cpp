// SPDX-License-Identifier: Apache-2.0
#include "load/row_flags.hpp"

#include <algorithm>
#include <atomic>
#include <bit>

namespace strata::store {
namespace {

constexpr Count kBits = 64;

Count words_of(Count rows) { return (rows + kBits - 1) / kBits; }

/// Calls visit(word, mask of the range's bits in it) for the words of a range.
template <typename Visit>
void for_each_word(Range rows, Visit&& visit) {
  for (Count row = rows.first; row < rows.end();) {
    const Count bit = row % kBits, count = std::min(kBits - bit, rows.end() - row);
    const std::uint64_t ones = count == kBits ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
    visit(at(row / kBits), ones << bit);
    row += count;
  }
}

}  // namespace

std::size_t RowFlags::words(Count rows) { return 2 * at(words_of(rows)); }

RowFlags::RowFlags(std::uint64_t* words, Count rows)
    : taken_(words, at(words_of(rows))), there_(words + words_of(rows), at(words_of(rows))) {}

bool RowFlags::has(Count row) const {
  const std::uint64_t word = std::atomic_ref(there_[at(row / kBits)]).load(std::memory_order_acquire);
  return (word >> (row % kBits) & 1) != 0;
}

std::vector<Range> RowFlags::take(Range rows) {
  std::vector<Range> runs;
  for_each_word(rows, [&](std::size_t word, std::uint64_t mask) {
    std::uint64_t mine = mask & ~std::atomic_ref(taken_[word]).fetch_or(mask, std::memory_order_acq_rel);
    while (mine != 0) {
      const int bit = std::countr_zero(mine), count = std::countr_one(mine >> bit);
      const Count first = static_cast<Count>(word) * kBits + bit;
      if (!runs.empty() && runs.back().end() == first)
        runs.back().count += count;
      else
        runs.push_back({first, count});
      mine = bit + count == kBits ? 0 : mine >> (bit + count) << (bit + count);
    }
  });
  return runs;
}

void RowFlags::say(Range rows) {
  for_each_word(rows, [&](std::size_t word, std::uint64_t mask) {
    std::atomic_ref(there_[word]).fetch_or(mask, std::memory_order_release);
  });
}

void RowFlags::put(Range rows, const std::function<void(Range)>& write) {
  for (const Range& run : take(rows)) {
    write(run);
    say(run);
  }
}

}  // namespace strata::store
