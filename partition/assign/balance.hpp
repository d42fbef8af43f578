// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <functional>
#include <vector>

#include "strata/partition/build.hpp"

namespace strata::partition {

using Weights = std::vector<std::vector<std::int32_t>>;  ///< [constraint][node]

Count total(const std::vector<std::int32_t>& weights);

/// The weights of the requested constraints that have a positive sum; a warning names the others.
Weights usable_weights(const CompactGraph& graph, const std::vector<NodeId>& train,
                       const AssignOptions& options);

/// The most that one part may weigh of a total weight: the requested share, but never
/// less than whole nodes allow.
Count most_of_share(Count total, int num_parts, double imbalance);

/// The same by constraint.
std::vector<Count> limits_of(const Weights& weights, const AssignOptions& options);

/// Gives every empty part a node of a part that has several; those of the smallest degree go first.
void fill_empty_parts(int num_parts, const std::function<Count(Count)>& degree_of,
                      std::vector<std::int32_t>& part_of);

/// Weights with all of a node next to each other. Empty if every node weighs one, which readers assume by
/// default.
template <typename T>
std::vector<T> interleave(const Weights& weights, Count num_nodes) {
  const bool unit =
      weights.empty() || (weights.size() == 1 && std::all_of(weights[0].begin(), weights[0].end(),
                                                             [](std::int32_t w) { return w == 1; }));
  if (unit) return {};
  std::vector<T> all(weights.size() * at(num_nodes));
  for (std::size_t c = 0; c < weights.size(); ++c) {
    for (std::size_t v = 0; v < at(num_nodes); ++v) all[v * weights.size() + c] = weights[c][v];
  }
  return all;
}

}  // namespace strata::partition
