// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>

#include "strata/graph/graph.hpp"

namespace strata::graph {
namespace {

/// The scale of a column over the training nodes, in the order of their ids.
TargetScale scale_of(const Graph& graph, Count column) {
  const auto sum = [&](const auto& value_of) {
    double total = 0;
    Count known = 0;
    for (const NodeId v : graph.splits.train) {
      const std::int32_t word = graph.labels[at(v * graph.target_cols + column)];
      if (word == kMissingTarget) continue;
      total += value_of(static_cast<double>(std::bit_cast<float>(word)));
      ++known;
    }
    return known == 0 ? 0 : total / static_cast<double>(known);
  };
  TargetScale scale{.mean = sum([](double value) { return value; })};
  const double deviation = std::sqrt(sum([&](double v) { return (v - scale.mean) * (v - scale.mean); }));
  if (deviation > 0) scale.deviation = deviation;
  return scale;
}

}  // namespace

std::vector<TargetScale> target_scales(const Graph& graph) {
  std::vector<TargetScale> scales;
  for (Count column = 0; column < graph.target_cols; ++column) scales.push_back(scale_of(graph, column));
  return scales;
}

}  // namespace strata::graph
