// SPDX-License-Identifier: Apache-2.0
#include "channels/free_space.hpp"

#include <iterator>

namespace strata::rpc {

std::optional<std::size_t> FreeSpace::take(std::size_t bytes) {
  for (auto part = free_.begin(); part != free_.end(); ++part) {
    const auto [begin, size] = *part;
    if (size < bytes) continue;
    free_.erase(part);
    if (size > bytes) free_.emplace(begin + bytes, size - bytes);
    return begin;
  }
  return std::nullopt;
}

void FreeSpace::give_back(std::size_t begin, std::size_t bytes) {
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
