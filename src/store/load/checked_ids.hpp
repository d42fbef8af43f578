// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>

#include "strata/util/types.hpp"

namespace strata::store {

/// Copies ids as `To` (i32 or i64). Returns the position of the first id that is not in [0, end), or
/// ids.size() if there is none. REQUIRES: end fits in To. Vectorised for i32, where the bandwidth of memory
/// is the limit.
template <typename To>
Count copy_checked(std::span<const NodeId> ids, NodeId end, To* out) {
  std::uint64_t all_bits = 0;
  std::uint32_t outside = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto id = static_cast<To>(ids[i]);
    all_bits |= static_cast<std::uint64_t>(ids[i]);
    outside |= static_cast<std::uint32_t>(id >= static_cast<To>(end));
    out[i] = id;
  }
  // Negative ids and ids that To cuts off have bits that no valid id has.
  const bool fits = all_bits <= static_cast<std::uint64_t>(std::numeric_limits<To>::max());
  if (fits && outside == 0) return std::ssize(ids);
  return std::ranges::find_if(ids, [end](NodeId id) { return id < 0 || id >= end; }) - ids.begin();
}

}  // namespace strata::store
