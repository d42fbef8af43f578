// SPDX-License-Identifier: Apache-2.0
#include "channels/landing_zone.hpp"

#include <algorithm>
#include <atomic>

namespace strata::rpc {
namespace {

using Word = std::atomic_ref<std::uint32_t>;
static_assert(Word::is_always_lock_free, "other processes use these, too");

constexpr std::uint32_t kTaken = 1, kReturned = 2;

Word word(std::span<std::byte> memory, std::size_t offset) {
  return Word(*reinterpret_cast<std::uint32_t*>(memory.data() + offset));
}
Word num_returned(std::span<std::byte> memory) { return word(memory, 0); }

}  // namespace

LandingZone::LandingZone(std::span<std::byte> memory)
    : memory_(memory), free_(kAlignment, memory.size() - std::min(memory.size(), kAlignment)) {}

std::optional<std::size_t> LandingZone::take(std::size_t bytes) {
  if (bytes > memory_.size()) return std::nullopt;  // and so the sum below cannot overflow
  const std::size_t whole = (bytes + kAlignment - 1) / kAlignment * kAlignment + kAlignment;
  const std::lock_guard lock(mutex_);
  // Looking at all marks for every single room would make many rooms quadratic. Memory that is warm is better
  // than memory that was never touched, so it does not wait until there is none left.
  if (num_returned(memory_).load() - collected_ > taken_.size() / 4) collect();
  std::optional<std::size_t> begin = free_.take(whole);
  if (!begin) {
    collect();
    begin = free_.take(whole);
  }
  if (!begin) return std::nullopt;
  taken_.emplace(*begin, whole);
  word(memory_, *begin).store(kTaken);
  return *begin + kAlignment;
}

void LandingZone::give_back(std::span<std::byte> memory, std::size_t offset) {
  word(memory, offset - kAlignment).store(kReturned);
  num_returned(memory).fetch_add(1);
}

void LandingZone::collect() {
  for (auto each = taken_.begin(); each != taken_.end();) {
    const auto [begin, size] = *each;
    if (word(memory_, begin).load() != kReturned) {
      ++each;
      continue;
    }
    each = taken_.erase(each);
    free_.give_back(begin, size);
    ++collected_;
  }
}

}  // namespace strata::rpc
