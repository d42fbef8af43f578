// SPDX-License-Identifier: Apache-2.0
#include "output/feature_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "strata/util/error.hpp"
#include "strata/util/random.hpp"

namespace strata::partition {
namespace {

template <DType type>
struct Element;
template <>
struct Element<DType::f32> {
  using Stored = float;
  static float to_float(float x) { return x; }
  static float from_float(float x) { return x; }
  static bool finite(float x) { return std::isfinite(x); }
};
template <>
struct Element<DType::f16> {
  using Stored = std::uint16_t;
  static float to_float(std::uint16_t x) { return f16_to_f32(x); }
  static std::uint16_t from_float(float x) { return f32_to_f16(x); }
  static bool finite(std::uint16_t x) { return (x & 0x7c00u) != 0x7c00u; }
};
template <>
struct Element<DType::bf16> {
  using Stored = std::uint16_t;
  static float to_float(std::uint16_t x) { return bf16_to_f32(x); }
  static std::uint16_t from_float(float x) { return f32_to_bf16(x); }
  static bool finite(std::uint16_t x) { return (x & 0x7f80u) != 0x7f80u; }
};

[[noreturn]] void refuse(NodeId node, Count col, float value, DType dtype) {
  if (!std::isfinite(value)) {
    throw InputError(fmt::format("feature {} of node {} is {}", col, node, value),
                     "Replace it in the input: features must be finite.");
  }
  throw InputError(
      fmt::format("feature {} of node {} is {}, beyond the range of {}", col, node, value, name_of(dtype)),
      dtype == DType::f16 ? "Give --features bf16 or f32, or scale the features." : "Give --features f32.");
}

template <DType from, DType to>
void convert_row(const std::byte* row, NodeId node, Count cols, std::byte* out) {
  using From = Element<from>;
  using To = Element<to>;
  bool finite = true;
  for (Count c = 0; c < cols; ++c) {
    typename From::Stored value;
    std::memcpy(&value, row + at(c) * sizeof value, sizeof value);
    typename To::Stored stored;
    if constexpr (from == to) {
      stored = value;
    } else {
      stored = To::from_float(From::to_float(value));
    }
    finite &= To::finite(stored);
    std::memcpy(out + at(c) * sizeof stored, &stored, sizeof stored);
  }
  if (finite) return;
  for (Count c = 0; c < cols; ++c) {
    typename From::Stored value;
    std::memcpy(&value, row + at(c) * sizeof value, sizeof value);
    if (!To::finite(To::from_float(From::to_float(value)))) refuse(node, c, From::to_float(value), to);
  }
}

void encode_row(const RowCode& code, const std::vector<float>& row, NodeId node, std::byte* out) {
  code.encode(row.data(), out);
  if (code.is_finite(out)) return;
  throw InputError(fmt::format("a feature of node {} is beyond the range of {}", node, name_of(code.kind)),
                   "Give --features f32.");
}

using RowConverter = void (*)(const std::byte*, NodeId, Count, std::byte*);

template <DType from>
RowConverter choose_to(DType to) {
  switch (to) {
    case DType::f32:
      return convert_row<from, DType::f32>;
    case DType::f16:
      return convert_row<from, DType::f16>;
    case DType::bf16:
      return convert_row<from, DType::bf16>;
    default:
      throw InputError(fmt::format("features cannot be stored as {}", name_of(to)),
                       "Give --features f32, f16 or bf16.");
  }
}

RowConverter choose(DType from, DType to) {
  switch (from) {
    case DType::f32:
      return choose_to<DType::f32>(to);
    case DType::f16:
      return choose_to<DType::f16>(to);
    case DType::bf16:
      return choose_to<DType::bf16>(to);
    default:
      throw InputError(fmt::format("features of type {} are not supported", name_of(from)),
                       "Convert them to f32, f16 or bf16.");
  }
}

}  // namespace

std::vector<std::byte> gather_rows(const graph::FeatureTable& table, const NodeId* nodes, Count num_nodes,
                                   const StoredType& type, ScratchStore* scratch) {
  const RowConverter convert = choose(table.dtype, type.code ? DType::f32 : type.dtype);
  const std::size_t out_bytes = type.code ? at(type.code.row_bytes()) : at(table.cols) * size_of(type.dtype);
  std::vector<std::byte> rows(at(num_nodes) * out_bytes);
  std::vector<float> floats(at(type.code ? table.cols : 0));
  FarTable far{scratch, table.data};
  for (Count i = 0; i < num_nodes; ++i) {
    const std::byte* const row = far.read(at(nodes[i]) * table.row_bytes(), table.row_bytes());
    std::byte* const out = rows.data() + at(i) * out_bytes;
    if (!type.code) {
      convert(row, nodes[i], table.cols, out);
      continue;
    }
    convert(row, nodes[i], table.cols, reinterpret_cast<std::byte*>(floats.data()));
    encode_row(type.code, floats, nodes[i], out);
  }
  return rows;
}

RowCode train_code(const graph::FeatureTable& table, std::uint64_t seed, ThreadPool& pool,
                   ScratchStore* scratch) {
  constexpr Count kSample = 16'384;
  std::vector<NodeId> nodes(at(std::min(kSample, table.rows)));
  for (std::size_t i = 0; i < nodes.size(); ++i) {  // one row out of each of as many runs of rows
    const auto first = table.rows * static_cast<Count>(i) / std::ssize(nodes),
               end = table.rows * static_cast<Count>(i + 1) / std::ssize(nodes);
    nodes[i] = first + static_cast<Count>(mix64(mix64(seed) ^ i) % static_cast<std::uint64_t>(end - first));
  }
  const RowCode none;
  const std::vector<std::byte> rows =
      gather_rows(table, nodes.data(), std::ssize(nodes), {.dtype = DType::f32, .code = none}, scratch);
  return train_vector_code(reinterpret_cast<const float*>(rows.data()), std::ssize(nodes), table.cols, seed,
                           pool);
}

}  // namespace strata::partition
