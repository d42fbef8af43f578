// SPDX-License-Identifier: Apache-2.0
#include "readers/parquet/arrow_values.hpp"

#include <arrow/array/array_dict.h>
#include <arrow/type.h>
#include <arrow/util/float16.h>
#include <fmt/format.h>

#include <limits>
#include <stdexcept>

namespace strata::graph {
namespace {

using arrow::Type;

template <typename Array, typename Out>
void copy_numbers(const arrow::Array& array, std::vector<Out>& out) {
  const auto& numbers = static_cast<const Array&>(array);
  for (std::int64_t i = 0; i < numbers.length(); ++i) out.push_back(static_cast<Out>(numbers.Value(i)));
}

template <typename Out>
void copy_halves(const arrow::Array& array, std::vector<Out>& out) {
  const auto& halves = static_cast<const arrow::HalfFloatArray&>(array);
  for (std::int64_t i = 0; i < halves.length(); ++i)
    out.push_back(static_cast<Out>(arrow::util::Float16::FromBits(halves.Value(i)).ToFloat()));
}

template <typename Array>
void copy_words(const arrow::Array& array, std::vector<std::string_view>& out) {
  const auto& words = static_cast<const Array&>(array);
  for (std::int64_t i = 0; i < words.length(); ++i)
    out.push_back(words.IsNull(i) ? std::string_view() : std::string_view(words.GetView(i)));
}

void copy_plain(const arrow::Array& array, std::vector<std::string_view>& out) {
  switch (array.type_id()) {
    case Type::STRING:
    case Type::BINARY:
      return copy_words<arrow::BinaryArray>(array, out);
    case Type::LARGE_STRING:
    case Type::LARGE_BINARY:
      return copy_words<arrow::LargeBinaryArray>(array, out);
    default:
      return copy_words<arrow::BinaryViewArray>(array, out);
  }
}

template <typename Out>
void copy_plain(const arrow::Array& array, std::vector<Out>& out) {
  switch (array.type_id()) {
    case Type::BOOL:
      return copy_numbers<arrow::BooleanArray>(array, out);
    case Type::INT8:
      return copy_numbers<arrow::Int8Array>(array, out);
    case Type::INT16:
      return copy_numbers<arrow::Int16Array>(array, out);
    case Type::INT32:
      return copy_numbers<arrow::Int32Array>(array, out);
    case Type::INT64:
      return copy_numbers<arrow::Int64Array>(array, out);
    case Type::UINT8:
      return copy_numbers<arrow::UInt8Array>(array, out);
    case Type::UINT16:
      return copy_numbers<arrow::UInt16Array>(array, out);
    case Type::UINT32:
      return copy_numbers<arrow::UInt32Array>(array, out);
    case Type::UINT64:
      return copy_numbers<arrow::UInt64Array>(array, out);
    case Type::HALF_FLOAT:
      return copy_halves(array, out);
    case Type::FLOAT:
      return copy_numbers<arrow::FloatArray>(array, out);
    default:
      return copy_numbers<arrow::DoubleArray>(array, out);
  }
}

/// Values of plain arrays and of arrays that are indices into a dictionary.
template <typename Out>
void copy(const arrow::Array& array, std::vector<Out>& out) {
  out.reserve(at(array.length()));
  if (array.type_id() != Type::DICTIONARY) return copy_plain(array, out);
  const auto& indices = static_cast<const arrow::DictionaryArray&>(array);
  std::vector<Out> known;
  copy_plain(*indices.dictionary(), known);
  for (std::int64_t i = 0; i < indices.length(); ++i)
    out.push_back(indices.IsNull(i) ? Out{} : known.at(at(indices.GetValueIndex(i))));
}

template <typename Real>
void copy_reals(const arrow::Array& array, std::vector<Real>& out) {
  copy(array, out);
  for (std::int64_t i = 0; array.null_count() > 0 && i < array.length(); ++i)
    if (array.IsNull(i)) out[at(i)] = std::numeric_limits<Real>::quiet_NaN();
}

/// The values of all lists, one after the other.
template <typename Lists>
std::shared_ptr<arrow::Array> flat(const arrow::Array& array, Count width) {
  const auto& lists = static_cast<const Lists&>(array);
  for (std::int64_t i = 0; i < lists.length(); ++i) {
    if (lists.IsNull(i)) throw std::runtime_error("a list is missing");
    if (lists.value_length(i) != width)
      throw std::runtime_error(
          fmt::format("lists of different lengths, {} and {} among them", lists.value_length(i), width));
  }
  return lists.values()->Slice(lists.length() == 0 ? 0 : lists.value_offset(0), lists.length() * width);
}

std::shared_ptr<arrow::Array> flat(const arrow::Array& array, Count width) {
  switch (array.type_id()) {
    case Type::LIST:
      return flat<arrow::ListArray>(array, width);
    case Type::LARGE_LIST:
      return flat<arrow::LargeListArray>(array, width);
    default:
      return flat<arrow::FixedSizeListArray>(array, width);
  }
}

ParquetPiece plain_piece_of(const arrow::Array& array, const ParquetWish& wish) {
  ParquetPiece piece;
  switch (wish.as) {
    case ParquetWish::As::integers:
      copy(array, piece.integers);
      break;
    case ParquetWish::As::floats:
      copy_reals(array, piece.floats);
      break;
    case ParquetWish::As::doubles:
      copy_reals(array, piece.doubles);
      break;
    case ParquetWish::As::words:
      copy(array, piece.words);
      break;
  }
  piece.rows = array.length() / wish.width;
  for (std::int64_t i = 0; array.null_count() > 0 && i < array.length(); ++i)
    if (const Count row = i / wish.width;
        array.IsNull(i) && (piece.missing.empty() || piece.missing.back() != row))
      piece.missing.push_back(row);
  return piece;
}

}  // namespace

ParquetPiece piece_of(const arrow::Array& array, const ParquetWish& wish) {
  if (type_in_lists(*array.type()) == nullptr) return plain_piece_of(array, wish);
  return plain_piece_of(*flat(array, wish.width), wish);
}

ParquetColumn::Kind kind_of(const arrow::DataType& type) {
  using Kind = ParquetColumn::Kind;
  const Type::type id = type.id();
  if (id == Type::DICTIONARY) return kind_of(*static_cast<const arrow::DictionaryType&>(type).value_type());
  if (arrow::is_integer(id)) return Kind::integer;
  if (arrow::is_floating(id)) return Kind::real;
  if (arrow::is_base_binary_like(id) || arrow::is_binary_view_like(id)) return Kind::text;
  return id == Type::BOOL ? Kind::boolean : Kind::other;
}

std::shared_ptr<arrow::DataType> type_in_lists(const arrow::DataType& type) {
  const Type::type id = type.id();
  if (id != Type::LIST && id != Type::LARGE_LIST && id != Type::FIXED_SIZE_LIST) return nullptr;
  return static_cast<const arrow::BaseListType&>(type).value_type();
}

}  // namespace strata::graph
