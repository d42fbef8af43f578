// SPDX-License-Identifier: Apache-2.0
#include "readers/edge_weights.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "readers/columns.hpp"
#include "readers/numpy/number_types.hpp"
#include "strata/graph/graph.hpp"
#include "strata/util/error.hpp"

namespace strata::graph {
namespace {

constexpr Count kPiece = Count{1} << 16;

void check_column(Count column, Count cols, const std::string& origin) {
  if (column < cols) return;
  throw InputError(fmt::format("{}: column {} of the edge features wanted, but there are {} columns", origin,
                               column, cols),
                   "Columns count from 0.");
}

float checked_weight(float value, Count edge, const std::string& origin) {
  if (is_edge_weight(value)) return value;
  throw InputError(
      fmt::format("{}: edge {} has the weight {}, which is negative or not finite", origin, edge, value),
      "Weights are finite numbers from 0; an edge of weight 0 is never sampled.");
}

}  // namespace

EdgeWeights::EdgeWeights(ScratchStore* scratch) {
  if (scratch != nullptr) file_.emplace(*scratch);
}

void EdgeWeights::append(std::span<const float> weights) {
  size_ += std::ssize(weights);
  ones_ += std::ranges::count(weights, 1.0f);
  if (file_)
    file_->append(weights);
  else
    held_.insert(held_.end(), weights.begin(), weights.end());
}

void EdgeWeights::give_to(EdgeList& edges, const std::string& origin) {
  if (size_ != edges.count)
    throw InputError(fmt::format("{}: {} weights for {} edges", origin, size_, edges.count),
                     "Write one weight per edge, in the order of the edges.");
  if (file_) stored_ = std::move(*file_).finish();
  file_.reset();
  edges.weights = stored_.size() > 0 ? stored_.data() : held_.data();
}

EdgeWeights edge_weights_of(const NpyArray& array, ScratchStore* scratch) {
  column_size(array, "edge weights");
  return edge_weights_of(array, 0, scratch);
}

EdgeWeights edge_weights_of(const NpyArray& array, Count column, ScratchStore* scratch) {
  const std::size_t dimensions = array.shape.size();
  if (dimensions != 1 && dimensions != 2)
    throw InputError(fmt::format("{}: edge features of shape {}", array.origin, array.shape_text()),
                     "A row per edge is expected, shape (E,) or (E, columns).");
  const Count rows = array.shape[0], cols = dimensions == 2 ? array.shape[1] : 1;
  check_column(column, cols, array.origin);
  EdgeWeights weights(scratch);
  std::vector<float> piece;
  visit_numbers(array, [&](const auto* values) {
    for (Count first = 0; first < rows; first += kPiece) {
      piece.clear();
      for (Count edge = first; edge < std::min(first + kPiece, rows); ++edge) {
        const Count at = array.fortran_order ? column * rows + edge : edge * cols + column;
        piece.push_back(checked_weight(static_cast<float>(to_number(values[at])), edge, array.origin));
      }
      weights.append(piece);
      if (scratch != nullptr) scratch->trim();
    }
  });
  return weights;
}

EdgeWeights read_csv_weights(const std::filesystem::path& path, Count column, const CsvExpectation& expected,
                             ThreadPool& pool, ScratchStore* scratch) {
  EdgeWeights weights(scratch);
  std::vector<float> of_rows;
  const std::string origin = path.string();
  read_csv_pieces<float>(path, expected, pool, scratch, [&](const CsvPiece<float>& piece) {
    check_column(column, piece.cols, origin);
    of_rows.clear();
    for (Count row = 0; row < piece.rows(); ++row)
      of_rows.push_back(checked_weight(piece.values[static_cast<std::size_t>(row * piece.cols + column)],
                                       weights.size() + row, origin));
    weights.append(of_rows);
  });
  return weights;
}

}  // namespace strata::graph
