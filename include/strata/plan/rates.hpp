// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>

#include "strata/plan/graph_shape.hpp"
#include "strata/tensor/path_rates.hpp"
#include "strata/tensor/placement.hpp"

/// How fast a GPU reads rows, from what tensor::measure_path_rates() measured. Pure functions.
namespace strata::plan {

/// The rate for a host table of this size, along this path. A GPU translates addresses of at most about 30
/// million distinct 64-KiB granules per second (measured), and each random row of a large table lies in
/// another granule; CPU threads have no such limit. If both work at once their rates add up, but not beyond
/// the rate that was measured for the link.
tensor::PathRate host_rate_of_table(const tensor::MeasuredPaths& measured, std::int64_t table_bytes,
                                    tensor::HostPath path = tensor::HostPath::automatic);

/// A table of which random rows are read.
struct RandomTable {
  std::int64_t row_bytes = 0, table_bytes = 0;
  tensor::HostPath host_path = tensor::HostPath::automatic;
};

/// The rates of rows of that length, with the host's for a table of that size. All 0 if no such length was
/// measured.
tensor::PathRates rates_of_table(std::span<const tensor::MeasuredPaths> measured, const RandomTable& table);

/// How the rows of a table are laid out and read.
struct RowLayout {
  bool padded = false;        ///< TensorSpec::padded
  bool aligned_reads = true;  ///< GatherSettings::aligned_reads
};

/// Whether rows of this length touch more lines of 128 bytes than they fill, so that their layout matters.
constexpr bool layout_matters(std::int64_t row_bytes) { return row_bytes > 128 && row_bytes % 128 != 0; }

/// The fastest layout. Padding takes memory, so it must be a tenth faster than the others to be chosen, and
/// all rows must have room in `host_bytes` then.
RowLayout best_layout(const tensor::LayoutRates& rates, const FeatureShape& features,
                      std::int64_t host_bytes);

}  // namespace strata::plan
