// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "strata/plan/graph_shape.hpp"
#include "strata/plan/heat.hpp"
#include "strata/tensor/path_rates.hpp"

/// A machine's part of a small graph, with rates that are easily told apart.
namespace strata::plan::small_graph {

inline const RegionSizes kSizes{
    .num_nodes = 1000, .first_node = 0, .num_local = 400, .local_edges = 5000, .in_degrees = true};
inline const FeatureShape kFeatures{.cols = 10, .dtype = DType::f32, .part_rows = {300, 0, 100}};
inline tensor::MeasuredPaths measured_paths(std::int64_t row_bytes, double local, double peer, double host) {
  using tensor::Stratum;
  return {row_bytes, {{Stratum::replicated, {local}}, {Stratum::striped, {peer}}, {Stratum::host, {host}}}};
}
inline const std::vector<tensor::MeasuredPaths> kMeasured = {
    measured_paths(4, 400, 40, 4), measured_paths(8, 800, 80, 8), measured_paths(40, 2000, 400, 40)};
/// Bytes of indptr, original ids and in-degrees.
inline constexpr std::int64_t kLookups = 401 * 8 + 1000 * 4 + 1000 * 4;
inline constexpr std::int64_t kIndices = 5000 * 4;
inline constexpr std::int64_t kRow = 40;

inline const BatchAccesses kAccesses{.features = {HeatCurve::flat(300, 300), {}, HeatCurve::flat(100, 100)},
                                     .lists = 300,
                                     .neighbors = 900,
                                     .nodes = 900};

}  // namespace strata::plan::small_graph
