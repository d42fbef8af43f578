#include "columns.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <type_traits>

#include "number_types.hpp"
#include "strata/util/error.hpp"

namespace strata::graph {
namespace {

constexpr std::int32_t kMissing = -1;

void require_integers(const NpyArray& array, const char* what) {
  if (array.kind != 'i' && array.kind != 'u')
    throw InputError(fmt::format("{}: {} of type '{}'", array.origin, what, array.type_name()),
                     "Write them as int64 or int32.");
}

/// Elements of a vector or a column.
Count column_size(const NpyArray& array, const char* what) {
  const bool vector = array.shape.size() == 1, column = array.shape.size() == 2 && array.shape[1] == 1;
  if (vector || column) return array.shape[0];
  throw InputError(
      fmt::format("{}: {} of shape {}", array.origin, what, array.shape_text()),
      "One value a node or edge is expected, shape (N,) or (N, 1); link prediction and multi-task sets "
      "are not supported.");
}

std::int32_t label_of(double value, const std::string& origin, Count row) {
  if (std::isnan(value) || value == kMissing) return kMissing;
  if (value >= 0 && value == std::floor(value) && value <= std::numeric_limits<std::int32_t>::max())
    return static_cast<std::int32_t>(value);
  throw InputError(fmt::format("{}: label {} in row {} is not a class", origin, value, row),
                   "Labels are integers from 0; nan or -1 stands for a missing one.");
}

}  // namespace

std::vector<NodeId> ids_of(const NpyArray& array) {
  require_integers(array, "node ids");
  const Count count = column_size(array, "node ids");
  std::vector<NodeId> ids(static_cast<std::size_t>(count));
  visit_numbers(array, [&](const auto* values) {
    for (Count i = 0; i < count; ++i)
      ids[static_cast<std::size_t>(i)] = static_cast<NodeId>(to_number(values[i]));
  });
  return ids;
}

std::vector<std::int32_t> labels_of(const NpyArray& array) {
  const Count count = column_size(array, "labels");
  std::vector<std::int32_t> labels(static_cast<std::size_t>(count));
  visit_numbers(array, [&](const auto* values) {
    for (Count i = 0; i < count; ++i)
      labels[static_cast<std::size_t>(i)] =
          label_of(static_cast<double>(to_number(values[i])), array.origin, i);
  });
  return labels;
}

std::vector<std::int32_t> labels_of(const CsvTable<double>& table, const std::string& origin) {
  if (table.cols > 1)
    throw InputError(fmt::format("{}: {} label columns", origin, table.cols),
                     "One class a node is expected; multi-task sets are not supported.");
  std::vector<std::int32_t> labels(static_cast<std::size_t>(table.rows));
  for (Count i = 0; i < table.rows; ++i)
    labels[static_cast<std::size_t>(i)] = label_of(table.values[static_cast<std::size_t>(i)], origin, i);
  return labels;
}

std::vector<float> edge_weights_of(const NpyArray& array) {
  const Count count = column_size(array, "edge weights");
  std::vector<float> weights(static_cast<std::size_t>(count));
  visit_numbers(array, [&](const auto* values) {
    for (Count i = 0; i < count; ++i) {
      const auto value = static_cast<float>(to_number(values[i]));
      if (!is_edge_weight(value))
        throw InputError(fmt::format("{}: edge {} has the weight {}, which is negative or not finite",
                                     array.origin, i, value),
                         "Weights are finite numbers from 0; an edge of weight 0 is never sampled.");
      weights[static_cast<std::size_t>(i)] = value;
    }
  });
  return weights;
}

EdgeArray edges_of(const NpyArray& array) {
  require_integers(array, "edges");
  const bool rows = array.shape.size() == 2 && array.shape[0] == 2;
  const bool pairs = array.shape.size() == 2 && array.shape[1] == 2 && !rows;
  if (!rows && !pairs)
    throw InputError(fmt::format("{}: edges of shape {}", array.origin, array.shape_text()),
                     "Edges are an integer array of shape (2, E): sources, then destinations.");
  EdgeArray edges{
      .list = {.count = array.shape[rows ? 1 : 0], .origin = array.origin}, .source = array, .wide = {}};
  const std::byte* base = array.data;
  edges.list.wide = array.item_bytes != 4;
  if (!array.is('i', 4) && !array.is('i', 8)) {
    edges.list.wide = true;
    edges.wide.resize(static_cast<std::size_t>(array.size()));
    visit_numbers(array, [&](const auto* values) {
      for (std::size_t i = 0; i < edges.wide.size(); ++i)
        edges.wide[i] = static_cast<std::int64_t>(to_number(values[i]));
    });
    base = reinterpret_cast<const std::byte*>(edges.wide.data());
  }
  const bool contiguous = rows != array.fortran_order;  // all sources first
  edges.list.stride = contiguous ? 1 : 2;
  edges.list.sources = base;
  edges.list.destinations = base + (contiguous ? edges.list.count : 1) * (edges.list.wide ? 8 : 4);
  return edges;
}

EdgeList edges_of(const CsvTable<NodeId>& table, const std::string& origin) {
  return {.sources = table.values.data(),
          .destinations = table.values.data() + 1,
          .count = table.rows,
          .stride = 2,
          .wide = true,
          .origin = origin};
}

}  // namespace strata::graph
