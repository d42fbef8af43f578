// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "build_csc.hpp"
#include "readers/csv.hpp"
#include "strata/graph/npy.hpp"
#include "strata/util/scratch.hpp"

namespace strata::graph {

/// Weights of edges, in the order of the edges, as they are read. An owner.
class EdgeWeights {
 public:
  /// With `scratch`, which must outlive the weights, they lie in a scratch file.
  explicit EdgeWeights(ScratchStore* scratch = nullptr);

  void append(std::span<const float> weights);

  Count size() const { return size_; }
  bool all_are_one() const { return ones_ == size_; }
  /// Gives `edges` these weights, which must then stay. Nothing can be appended then.
  ///
  /// Throws InputError, which names `origin`, if there are not as many weights as edges.
  void give_to(EdgeList& edges, const std::string& origin);

 private:
  std::vector<float> held_;
  std::optional<ScratchWriter<float>> file_;
  ScratchArray<float> stored_;
  Count size_ = 0, ones_ = 0;
};

/// Weights from a one-dimensional array or column `column` of a matrix. Throws InputError if there is no such
/// column or is_edge_weight() refuses a weight.
EdgeWeights edge_weights_of(const NpyArray& array, ScratchStore* scratch);
EdgeWeights edge_weights_of(const NpyArray& array, Count column, ScratchStore* scratch);

/// The same from a column of a CSV file.
EdgeWeights read_csv_weights(const std::filesystem::path& path, Count column, const CsvExpectation& expected,
                             ThreadPool& pool, ScratchStore* scratch);

}  // namespace strata::graph
