// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "readers/columns.hpp"
#include "readers/numpy/number_types.hpp"
#include "strata/util/error.hpp"
#include "strata/util/system.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr Count kRowsPerPiece = 2048;
constexpr Count kValuesPerPiece = Count{1} << 16;  // that are converted at once on their way to a file

[[noreturn]] void refuse_value(const std::string& origin, Count row, Count col, float value) {
  throw InputError(fmt::format("{}: feature {} of node {} is {}", origin, col, row, value),
                   "Features must be finite; replace missing values first, by 0 or a mean.");
}

/// Exponent bits of NaN and infinity. Whole rows are tested for them, so that the loop vectorises.
template <typename Bits>
bool all_finite(const Bits* values, Count count, Bits exponent) {
  bool bad = false;
  for (Count i = 0; i < count; ++i) bad |= (values[i] & exponent) == exponent;
  return !bad;
}

template <typename Bits, typename ToFloat>
void check_rows(const FeatureTable& features, const std::string& origin, Bits exponent, ToFloat to_float,
                ThreadPool& pool, ScratchStore* scratch) {
  const Bits* const values = reinterpret_cast<const Bits*>(features.data);
  pool.parallel_for(features.rows, kRowsPerPiece, [&](Count begin, Count end) {
    if (scratch != nullptr) scratch->trim();
    const Bits* const first = values + begin * features.cols;
    const Count count = (end - begin) * features.cols;
    if (all_finite(first, count, exponent)) return;
    for (Count i = 0; i < count; ++i)
      if ((first[i] & exponent) == exponent)
        refuse_value(origin, begin + i / features.cols, i % features.cols, to_float(first[i]));
  });
}

void check_finite(const FeatureTable& features, const std::string& origin, ThreadPool& pool,
                  ScratchStore* scratch) {
  if (features.dtype == DType::f32)
    check_rows<std::uint32_t>(
        features, origin, 0x7f800000u, [](std::uint32_t b) { return __builtin_bit_cast(float, b); }, pool,
        scratch);
  else
    check_rows<std::uint16_t>(
        features, origin, 0x7c00u, [](std::uint16_t b) { return f16_to_f32(b); }, pool, scratch);
}

struct Extents {
  Count rows = 0, cols = 0;
};

FeatureTable table_of(const ScratchArray<float>& stored, const Extents& extents) {
  return {.rows = extents.rows,
          .cols = extents.cols,
          .dtype = DType::f32,
          .data = reinterpret_cast<const std::byte*>(stored.data()),
          .keep_alive = stored.keep_alive()};
}

Extents extents_of(const NpyArray& array) {
  if (array.shape.size() == 1) return {array.shape[0], 1};
  if (array.shape.size() == 2) return {array.shape[0], array.shape[1]};
  throw InputError(fmt::format("{}: features of shape {}", array.origin, array.shape_text()),
                   "Features must be a matrix: one row per node.");
}

/// Rows of f32, in memory or in a scratch file. fill(begin, end, out) makes those of a piece.
template <typename Fill>
FeatureTable made(const Extents& extents, ThreadPool& pool, ScratchStore* scratch, Fill fill) {
  std::optional<ScratchFile> file;
  FeatureMemory memory;
  if (scratch != nullptr) {
    file.emplace(*scratch);
    file->reserve(at(extents.rows * extents.cols) * sizeof(float));
  } else {
    memory = allocate_features(extents.rows, extents.cols, DType::f32);
  }
  const Count rows_at_once =
      file ? std::clamp<Count>(kValuesPerPiece / std::max<Count>(extents.cols, 1), 1, kRowsPerPiece)
           : kRowsPerPiece;
  pool.parallel_for(extents.rows, rows_at_once, [&](Count begin, Count end) {
    if (!file) return fill(begin, end, reinterpret_cast<float*>(memory.bytes) + begin * extents.cols);
    std::vector<float> piece(at((end - begin) * extents.cols));
    fill(begin, end, piece.data());
    file->write_at(at(begin * extents.cols) * sizeof(float), piece.data(), piece.size() * sizeof(float));
    scratch->trim();
  });
  return file ? table_of({std::move(*file).map(), extents.rows * extents.cols}, extents) : memory.table;
}

FeatureTable converted(const NpyArray& array, const Extents& extents, ThreadPool& pool,
                       ScratchStore* scratch) {
  const Count row_step = array.fortran_order ? 1 : extents.cols,
              col_step = array.fortran_order ? extents.rows : 1;
  FeatureTable table;
  visit_numbers(array, [&](const auto* values) {
    table = made(extents, pool, scratch, [&](Count begin, Count end, float* out) {
      for (Count row = begin; row < end; ++row)
        for (Count col = 0; col < extents.cols; ++col)
          *out++ = static_cast<float>(to_number(values[row * row_step + col * col_step]));
    });
  });
  return table;
}

/// The rows of a table in the order of the nodes that they belong to.
FeatureTable read_in_order(const std::filesystem::path& path, const CsvExpectation& expected,
                           std::span<const NodeId> nodes, ThreadPool& pool, ScratchStore* scratch) {
  const auto cols = std::ssize(expected.columns);
  const FeatureMemory memory = allocate_features(std::ssize(nodes), cols, DType::f32, scratch);
  float* const out = reinterpret_cast<float*>(memory.bytes);
  read_csv_pieces<float>(path, expected, pool, scratch, [&](const CsvPiece<float>& piece) {
    for (Count row = 0; row < piece.rows(); ++row)
      std::copy_n(piece.values.data() + row * cols, cols, out + nodes[at(piece.first_row + row)] * cols);
    if (scratch != nullptr) scratch->trim();
  });
  check_finite(memory.table, path.string(), pool, scratch);
  return memory.table;
}

template <typename ToFloat>
void normalize_row(Count cols, float* out, ToFloat&& value) {
  double sum = 0;
  for (Count col = 0; col < cols; ++col) sum += std::abs(static_cast<double>(value(col)));
  const double scale = sum > 0 ? 1 / sum : 0;
  for (Count col = 0; col < cols; ++col) out[col] = static_cast<float>(value(col) * scale);
}

}  // namespace

FeatureMemory allocate_features(Count rows, Count cols, DType dtype, ScratchStore* scratch) {
  const std::size_t bytes = at(rows) * at(cols) * size_of(dtype);
  if (scratch != nullptr) {
    ScratchFile file(*scratch);
    file.reserve(bytes);
    const std::shared_ptr<std::byte> mapped = std::move(file).map();
    return {.table = {.rows = rows, .cols = cols, .dtype = dtype, .data = mapped.get(), .keep_alive = mapped},
            .bytes = mapped.get()};
  }
  const std::size_t rounded = (bytes + kAlignment) / kAlignment * kAlignment;
  std::byte* const memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded));
  if (memory == nullptr)
    throw OutOfMemory(
        fmt::format("no room for the features of {} nodes: wanted {}, free {}", format_count(rows),
                    format_bytes(static_cast<std::int64_t>(bytes)), format_bytes(available_host_bytes())),
        "Use a host with more memory, or features of 16 bits.");
  return {.table = {.rows = rows,
                    .cols = cols,
                    .dtype = dtype,
                    .data = memory,
                    .keep_alive = std::shared_ptr<const void>(
                        memory, [](const void* p) { std::free(const_cast<void*>(p)); })},
          .bytes = memory};
}

FeatureTable features_of(const NpyArray& array, Count rows, ThreadPool& pool, ScratchStore* scratch) {
  const Extents extents = extents_of(array);
  if (extents.rows != rows)
    throw InputError(fmt::format("{}: {} rows of features for {} nodes", array.origin, extents.rows, rows),
                     "Write one row per node, or correct the stated number of nodes.");
  const bool in_place = !array.fortran_order && (array.is('f', 4) || array.is('f', 2));
  FeatureTable features = in_place ? FeatureTable{.rows = extents.rows,
                                                  .cols = extents.cols,
                                                  .dtype = array.is('f', 4) ? DType::f32 : DType::f16,
                                                  .data = array.data,
                                                  .keep_alive = array.keep_alive}
                                   : converted(array, extents, pool, scratch);
  check_finite(features, array.origin, pool, scratch);
  return features;
}

FeatureTable features_of(CsvTable<float> table, const std::string& origin, ThreadPool& pool) {
  const auto values = std::make_shared<std::vector<float>>(std::move(table.values));
  FeatureTable features{.rows = table.rows,
                        .cols = table.cols,
                        .dtype = DType::f32,
                        .data = reinterpret_cast<const std::byte*>(values->data()),
                        .keep_alive = values};
  check_finite(features, origin, pool, nullptr);
  return features;
}

FeatureTable read_csv_features(const std::filesystem::path& path, const CsvExpectation& expected,
                               ThreadPool& pool, ScratchStore* scratch, std::span<const NodeId> nodes) {
  if (!nodes.empty()) return read_in_order(path, expected, nodes, pool, scratch);
  if (scratch == nullptr) return features_of(read_csv<float>(path, expected, pool), path.string(), pool);
  ScratchWriter<float> values(*scratch);
  Extents extents;
  extents.rows = read_csv_pieces<float>(path, expected, pool, scratch, [&](const CsvPiece<float>& piece) {
    extents.cols = piece.cols;
    values.append(piece.values);
  });
  const FeatureTable features = table_of(std::move(values).finish(), extents);
  check_finite(features, path.string(), pool, scratch);
  return features;
}

FeatureTable normalized(const FeatureTable& features, ThreadPool& pool, ScratchStore* scratch) {
  const Count cols = features.cols;
  return made({features.rows, cols}, pool, scratch, [&](Count begin, Count end, float* out) {
    for (Count row = begin; row < end; ++row, out += cols) {
      if (features.dtype == DType::f32) {
        const float* const in = reinterpret_cast<const float*>(features.data) + row * cols;
        normalize_row(cols, out, [in](Count col) { return in[col]; });
      } else {
        const std::uint16_t* const in = reinterpret_cast<const std::uint16_t*>(features.data) + row * cols;
        const bool half = features.dtype == DType::f16;
        normalize_row(cols, out,
                      [in, half](Count col) { return half ? f16_to_f32(in[col]) : bf16_to_f32(in[col]); });
      }
    }
  });
}

}  // namespace strata::graph
