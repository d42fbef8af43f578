// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>

#include <cstdint>

#include "strata/graph/npy.hpp"
#include "strata/util/error.hpp"
#include "strata/util/types.hpp"

namespace strata::graph {

/// The bits of an IEEE half: a type that differs from 16-bit integers.
struct Half {
  std::uint16_t bits;
};

template <typename T>
auto to_number(T value) {
  return value;
}
inline float to_number(Half value) { return f16_to_f32(value.bits); }

/// Calls visitor(const T*) with the array's elements in their own type.
template <typename Visitor>
void visit_numbers(const NpyArray& array, Visitor&& visitor) {
  const auto as = [&]<typename T>(const T*) { visitor(reinterpret_cast<const T*>(array.data)); };
  const int bytes = array.item_bytes;
  switch (array.kind) {
    case 'f':
      if (bytes == 2) return as(static_cast<const Half*>(nullptr));
      if (bytes == 4) return as(static_cast<const float*>(nullptr));
      return as(static_cast<const double*>(nullptr));
    case 'i':
      if (bytes == 1) return as(static_cast<const std::int8_t*>(nullptr));
      if (bytes == 2) return as(static_cast<const std::int16_t*>(nullptr));
      if (bytes == 4) return as(static_cast<const std::int32_t*>(nullptr));
      return as(static_cast<const std::int64_t*>(nullptr));
    case 'u':
    case 'b':
      if (bytes == 1) return as(static_cast<const std::uint8_t*>(nullptr));
      if (bytes == 2) return as(static_cast<const std::uint16_t*>(nullptr));
      if (bytes == 4) return as(static_cast<const std::uint32_t*>(nullptr));
      return as(static_cast<const std::uint64_t*>(nullptr));
    default:
      throw InputError(fmt::format("{}: type '{}' is not supported", array.origin, array.type_name()));
  }
}

}  // namespace strata::graph
