// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace strata {

using NodeId = std::int64_t;       ///< global or original node id; 64-bit in files and interfaces
using EdgeId = std::int64_t;       ///< position of an edge in the input
using RelationId = std::uint16_t;  ///< number of a relation of a graph
using Count = std::int64_t;        ///< counts and offsets are 64-bit everywhere

/// Converts an index or a count to the type that containers take: `degrees[at(node)]`.
constexpr std::size_t at(Count index) { return static_cast<std::size_t>(index); }
template <typename Enum>
requires std::is_enum_v<Enum>
constexpr std::size_t at(Enum value) { return static_cast<std::size_t>(value); }

/// Element types of tensors and files.
enum class DType : std::uint8_t { f32, f16, bf16, f64, i8, u8, i32, i64 };

constexpr std::size_t size_of(DType type) {
  switch (type) {
    case DType::i8:
    case DType::u8:
      return 1;
    case DType::f16:
    case DType::bf16:
      return 2;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::f64:
    case DType::i64:
      return 8;
  }
  return 0;
}

std::string_view name_of(DType type);      ///< "f32"
DType parse_dtype(std::string_view name);  ///< throws InputError with the list of names

/// IEEE conversions with round-to-nearest-even, bit for bit those of CUDA and NumPy.
float f16_to_f32(std::uint16_t bits) noexcept;
std::uint16_t f32_to_f16(float value) noexcept;
inline float bf16_to_f32(std::uint16_t bits) noexcept {
  return __builtin_bit_cast(float, std::uint32_t{bits} << 16);
}
std::uint16_t f32_to_bf16(float value) noexcept;

/// Host or device, as the memory of a buffer or the place of a computation.
struct Device {
  enum class Kind : std::uint8_t { cpu, cuda };
  Kind kind = Kind::cpu;
  int index = 0;  ///< CUDA ordinal as this process sees it; 0 for the CPU

  bool is_cuda() const noexcept { return kind == Kind::cuda; }
  bool operator==(const Device&) const = default;
  std::string str() const { return is_cuda() ? "cuda:" + std::to_string(index) : "cpu"; }
};

/// A read-only array of ids, stored as i32 if all of them fit, else as i64. A view; it never frees.
///
/// Kernels and loops visit it once, outside the loop:  `ids.visit([&](const auto* typed) { ... })`.
struct IdSpan {
  const void* data = nullptr;
  Count size = 0;
  bool wide = false;  ///< true: i64, false: i32

  NodeId operator[](Count i) const {  ///< host memory only
    return wide ? static_cast<const std::int64_t*>(data)[i] : static_cast<const std::int32_t*>(data)[i];
  }
  template <typename Visitor>
  decltype(auto) visit(Visitor&& visitor) const {
    return wide ? visitor(static_cast<const std::int64_t*>(data))
                : visitor(static_cast<const std::int32_t*>(data));
  }
};

}  // namespace strata
