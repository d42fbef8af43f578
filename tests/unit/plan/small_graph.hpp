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
inline const std::vector<tensor::MeasuredPaths> kMeasured = {{4, {.local = 400, .peer = 40, .host = 4}},
                                                             {8, {.local = 800, .peer = 80, .host = 8}},
                                                             {40, {.local = 2000, .peer = 400, .host = 40}}};
/// Bytes of indptr, original ids and in-degrees.
inline constexpr std::int64_t kLookups = 401 * 8 + 1000 * 4 + 1000 * 4;
inline constexpr std::int64_t kIndices = 5000 * 4;
inline constexpr std::int64_t kRow = 40;

inline const BatchAccesses kAccesses{.features = {HeatCurve::flat(300, 300), {}, HeatCurve::flat(100, 100)},
                                     .lists = 300,
                                     .neighbors = 900,
                                     .nodes = 900};

}  // namespace strata::plan::small_graph
