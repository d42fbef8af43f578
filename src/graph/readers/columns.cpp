// SPDX-License-Identifier: Apache-2.0
#include "readers/columns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

#include "readers/numpy/number_types.hpp"
#include "strata/util/error.hpp"

namespace strata::graph {
namespace {

constexpr std::int32_t kMissing = -1;

void require_integers(const NpyArray& array, const char* what) {
  if (array.kind != 'i' && array.kind != 'u')
    throw InputError(fmt::format("{}: {} of type '{}'", array.origin, what, array.type_name()),
                     "Write them as int64 or int32.");
}

std::int32_t label_of(double value, const std::string& origin, Count row) {
  if (std::isnan(value) || value == kMissing) return kMissing;
  if (value >= 0 && value == std::floor(value) && value <= std::numeric_limits<std::int32_t>::max())
    return static_cast<std::int32_t>(value);
  throw InputError(
      fmt::format("{}: label {} in row {} is not a class", origin, value, row),
      "Labels are integers from 0; nan or -1 stands for a missing one. Numbers to predict are targets: give "
      "them as targets.npy in npy:DIR, or with --targets FILE.");
}

std::int32_t target_of(double value, const std::string& origin, Count row) {
  if (std::isnan(value)) return kMissingTarget;
  const auto narrow = static_cast<float>(value);
  if (std::isfinite(narrow)) return std::bit_cast<std::int32_t>(narrow);
  throw InputError(fmt::format("{}: the target {} in row {} does not fit into an f32", origin, value, row),
                   "Scale the targets, or write nan where one is missing.");
}

/// The set of classes of a row of a label matrix: the columns that are 1.
template <typename ValueAt>
void read_set(std::int32_t* words, Count row, Count cols, const std::string& origin,
              const ValueAt& value_at) {
  Count missing = 0;
  for (Count c = 0; c < cols; ++c) {
    const double value = value_at(row * cols + c);
    if (value == 1)
      add_class(words, c);
    else if (std::isnan(value) || value == kMissing)
      ++missing;
    else if (value != 0)
      throw InputError(
          fmt::format("{}: {} in row {}, column {} of the labels is neither 0 nor 1", origin, value, row, c),
          "A matrix of labels says 1 where a node has the class of the column. A table of one column has a "
          "class per node; one with a column of ids begins with a line of names: id,label.");
  }
  if (missing == 0) return;
  if (missing < cols)
    throw InputError(fmt::format("{}: row {} lacks {} of its {} labels", origin, row, missing, cols),
                     "Give all labels of a node, or nan in its whole row.");
  add_class(words, cols);
}

/// The labels of `rows` rows from `first` on.
template <typename ValueAt>
NodeLabels labels_from(Count first, Count rows, Count cols, const std::string& origin, LabelKind kind,
                       const ValueAt& value_at) {
  const bool targets = kind == LabelKind::targets;
  NodeLabels labels{
      .rows = rows, .set_of = !targets && cols > 1 ? cols : 0, .targets = targets ? cols : 0, .values = {}};
  const Count words = labels.words();
  labels.values.resize(at(rows * words));
  for (Count i = first; i < first + rows; ++i) {
    std::int32_t* of_node = labels.values.data() + (i - first) * words;
    for (Count c = 0; targets && c < cols; ++c) of_node[c] = target_of(value_at(i * cols + c), origin, i);
    if (targets) continue;
    if (cols > 1)
      read_set(of_node, i, cols, origin, value_at);
    else
      *of_node = label_of(value_at(i), origin, i);
  }
  return labels;
}

/// The numbers of an array as i64: in memory or in a scratch file.
const std::byte* widen(const NpyArray& array, EdgeArray& edges, ScratchStore* scratch) {
  constexpr Count kPiece = Count{1} << 16;
  const Count size = array.size();
  std::optional<ScratchWriter<std::int64_t>> file;
  if (scratch != nullptr) file.emplace(*scratch);
  std::vector<std::int64_t> piece;
  visit_numbers(array, [&](const auto* values) {
    for (Count first = 0; first < size; first += kPiece) {
      for (Count i = first; i < std::min(first + kPiece, size); ++i)
        piece.push_back(static_cast<std::int64_t>(to_number(values[i])));
      if (!file) continue;
      file->append(piece);
      piece.clear();
      scratch->trim();
    }
  });
  edges.wide = std::move(piece);
  if (file) edges.stored = std::move(*file).finish();
  const std::int64_t* const first = edges.stored.size() > 0 ? edges.stored.data() : edges.wide.data();
  return reinterpret_cast<const std::byte*>(first);
}

}  // namespace

Count column_size(const NpyArray& array, const char* what) {
  const bool vector = array.shape.size() == 1, column = array.shape.size() == 2 && array.shape[1] == 1;
  if (vector || column) return array.shape[0];
  throw InputError(
      fmt::format("{}: {} of shape {}", array.origin, what, array.shape_text()),
      "One value per node or edge is expected, shape (N,) or (N, 1); link prediction is not supported.");
}

std::vector<NodeId> ids_of(const NpyArray& array) {
  require_integers(array, "node ids");
  const Count count = column_size(array, "node ids");
  std::vector<NodeId> ids(at(count));
  visit_numbers(array, [&](const auto* values) {
    for (Count i = 0; i < count; ++i) ids[at(i)] = static_cast<NodeId>(to_number(values[i]));
  });
  return ids;
}

NodeWeights node_weights_of(const NpyArray& array, Count rows) {
  require_integers(array, "weights of nodes");
  const bool matrix = array.shape.size() == 2;
  const Count kinds = matrix ? array.shape[1] : 1;
  if (array.shape.empty() || array.shape.size() > 2 || array.shape[0] != rows || kinds < 1 ||
      kinds > NodeWeights::kMostKinds || (array.fortran_order && kinds > 1))
    throw InputError(
        fmt::format("{}: weights of {} nodes of shape {}{}", array.origin, rows, array.shape_text(),
                    array.fortran_order ? " in Fortran order" : ""),
        fmt::format("Write a row per node, shape (N,) or (N, kinds) in C order, of at most {} kinds.",
                    NodeWeights::kMostKinds));
  NodeWeights weights{.kinds = static_cast<int>(kinds)};
  weights.values.resize(at(array.size()));
  visit_numbers(array, [&](const auto* values) {
    for (Count i = 0; i < array.size(); ++i) {
      const auto weight = static_cast<Count>(to_number(values[i]));
      if (weight < 0 || weight > std::numeric_limits<std::int32_t>::max())
        throw InputError(
            fmt::format("{}: node {} has the weight {}, which is negative or takes more than 31 bits",
                        array.origin, i / kinds, weight),
            "Weights are integers from 0 to 2147483647.");
      weights.values[at(i)] = static_cast<std::int32_t>(weight);
    }
  });
  return weights;
}

NodeLabels labels_of(const NpyArray& array, LabelKind kind) {
  if (array.shape.size() == 2 && array.shape[1] > 1 && array.fortran_order)
    throw InputError(fmt::format("{}: a matrix of labels in Fortran order", array.origin),
                     "Write it in C order: numpy.ascontiguousarray.");
  const bool matrix = array.shape.size() == 2 && array.shape[1] > 1;
  const Count rows = matrix ? array.shape[0] : column_size(array, "labels"),
              cols = matrix ? array.shape[1] : 1;
  NodeLabels labels;
  visit_numbers(array, [&](const auto* values) {
    labels = labels_from(0, rows, cols, array.origin, kind,
                         [values](Count i) { return static_cast<double>(to_number(values[i])); });
  });
  return labels;
}

NodeLabels labels_of(const CsvPiece<double>& rows, const std::string& origin, LabelKind kind) {
  const Count cols = std::max<Count>(rows.cols, 1), before = rows.first_row * cols;
  return labels_from(rows.first_row, rows.rows(), cols, origin, kind,
                     [&](Count i) { return rows.values[at(i - before)]; });
}

NodeLabels read_csv_labels(const std::filesystem::path& path, const CsvExpectation& expected,
                           ThreadPool& pool, const ScratchStore* scratch, LabelKind kind) {
  NodeLabels labels;
  const std::string origin = path.string();
  read_csv_pieces<double>(path, expected, pool, scratch, [&](const CsvPiece<double>& piece) {
    const NodeLabels of_piece = labels_of(piece, origin, kind);
    if (labels.rows == 0 && expected.rows)
      labels.values.reserve(
          std::min(at(*expected.rows * of_piece.words()), std::filesystem::file_size(path) * 1032 / 2 + 1));
    labels.set_of = of_piece.set_of;
    labels.targets = of_piece.targets;
    labels.rows += of_piece.rows;
    labels.values.insert(labels.values.end(), of_piece.values.begin(), of_piece.values.end());
  });
  return labels;
}

NodeLabels missing_labels(Count rows, const LabelShape& shape) {
  NodeLabels labels{.rows = rows, .set_of = shape.sets ? shape.classes : 0, .targets = shape.targets};
  const std::vector<std::int32_t> missing = shape.missing();
  labels.values.reserve(at(rows) * missing.size());
  for (Count row = 0; row < rows; ++row)
    labels.values.insert(labels.values.end(), missing.begin(), missing.end());
  return labels;
}

EdgeArray edges_of(const NpyArray& array, ScratchStore* scratch) {
  require_integers(array, "edges");
  const bool rows = array.shape.size() == 2 && array.shape[0] == 2;
  const bool pairs = array.shape.size() == 2 && array.shape[1] == 2 && !rows;
  if (!rows && !pairs)
    throw InputError(fmt::format("{}: edges of shape {}", array.origin, array.shape_text()),
                     "Edges are an integer array of shape (2, E): sources, then destinations.");
  EdgeArray edges{.list = {.count = array.shape[rows ? 1 : 0], .origin = array.origin},
                  .source = array,
                  .wide = {},
                  .stored = {}};
  const bool in_place = array.is('i', 4) || array.is('i', 8);
  edges.list.wide = array.item_bytes != 4 || !in_place;
  const std::byte* const base = in_place ? array.data : widen(array, edges, scratch);
  const bool contiguous = rows != array.fortran_order;  // all sources first
  edges.list.stride = contiguous ? 1 : 2;
  edges.list.sources = base;
  edges.list.destinations = base + (contiguous ? edges.list.count : 1) * (edges.list.wide ? 8 : 4);
  return edges;
}

}  // namespace strata::graph
