// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "strata/graph/part_file.hpp"
#include "strata/store/load_options.hpp"
#include "strata/tensor/chunk_tensor.hpp"
#include "strata/util/types.hpp"

namespace strata::store {

/// The feature rows of a machine, for planning.
struct FeatureShape {
  Count cols = 0;
  DType dtype = DType::f32;
  std::vector<Count> part_rows;  ///< of each hosted part, hottest row first; then of the halo, if any
  std::span<const std::uint32_t> halo_occurrences =
      {};               ///< of its rows, in this machine's lists; empty: no halo
  bool padded = false;  ///< rows begin at multiples of 128 bytes
  RowCode code = {};    ///< as tensor::TensorSpec has it

  Count rows() const { return std::accumulate(part_rows.begin(), part_rows.end(), Count{0}); }
  tensor::TensorSpec spec() const {
    return {.name = {}, .rows = rows(), .cols = cols, .dtype = dtype, .code = code, .padded = padded};
  }
  std::int64_t row_bytes() const { return static_cast<std::int64_t>(spec().row_bytes()); }
  std::int64_t row_pitch() const { return static_cast<std::int64_t>(spec().row_pitch()); }
  FeatureShape with_padding() const {
    FeatureShape shape = *this;
    shape.padded = true;
    return shape;
  }
};

/// The manifest's features as they are kept, without part_rows. Throws as feature_row_bytes().
FeatureShape shape_in_memory(const graph::Manifest& manifest, FeatureFormat format);

}  // namespace strata::store
