// SPDX-License-Identifier: Apache-2.0
#include "channels/landing_zone.hpp"

#include <atomic>
#include <iterator>

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

LandingZone::LandingZone(std::span<std::byte> memory) : memory_(memory) {
  if (memory.size() > kAlignment) free_.emplace(kAlignment, memory.size() - kAlignment);
}

std::optional<std::size_t> LandingZone::take(std::size_t bytes) {
  if (bytes > memory_.size()) return std::nullopt;  // and so the sum below cannot overflow
  const std::size_t whole = (bytes + kAlignment - 1) / kAlignment * kAlignment + kAlignment;
  const std::lock_guard lock(mutex_);
  // Looking at all marks for every single room would make many rooms quadratic. Memory that is warm is better
  // than memory that was never touched, so it does not wait until there is none left.
  if (num_returned(memory_).load() - collected_ > taken_.size() / 4) collect();
  std::optional<std::size_t> begin = find(whole);
  if (!begin) {
    collect();
    begin = find(whole);
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

/// The first free part that is large enough.
std::optional<std::size_t> LandingZone::find(std::size_t bytes) {
  for (auto part = free_.begin(); part != free_.end(); ++part) {
    const auto [begin, size] = *part;
    if (size < bytes) continue;
    free_.erase(part);
    if (size > bytes) free_.emplace(begin + bytes, size - bytes);
    return begin;
  }
  return std::nullopt;
}

void LandingZone::collect() {
  for (auto each = taken_.begin(); each != taken_.end();) {
    const auto [begin, size] = *each;
    if (word(memory_, begin).load() != kReturned) {
      ++each;
      continue;
    }
    each = taken_.erase(each);
    free(begin, size);
    ++collected_;
  }
}

void LandingZone::free(std::size_t begin, std::size_t bytes) {
  auto next = free_.lower_bound(begin);
  if (next != free_.end() && next->first == begin + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == begin) {
      before->second += bytes;
      return;
    }
  }
  free_.emplace(begin, bytes);
}

}  // namespace strata::rpc
