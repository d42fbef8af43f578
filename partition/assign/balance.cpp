// SPDX-License-Identifier: Apache-2.0
#include "assign/balance.hpp"

#include <spdlog/spdlog.h>

#include <cmath>
#include <numeric>

namespace strata::partition {

Count total(const std::vector<std::int32_t>& weights) {
  return std::accumulate(weights.begin(), weights.end(), Count{0});
}

Weights usable_weights(const CompactGraph& graph, const std::vector<NodeId>& train,
                       const AssignOptions& options) {
  Weights weights;
  for (const Constraint constraint : options.balance) {
    std::vector<std::int32_t> w = weights_of(constraint, graph, train);
    if (total(w) == 0) {
      spdlog::warn("nothing to balance: the graph has no {}",
                   constraint == Constraint::train ? "training nodes" : "edges");
      continue;
    }
    weights.push_back(std::move(w));
  }
  return weights;
}

std::vector<Count> limits_of(const Weights& weights, const AssignOptions& options) {
  std::vector<Count> limits;
  for (const auto& w : weights) {
    const Count mean_up = (total(w) + options.num_parts - 1) / options.num_parts;
    const double share = static_cast<double>(total(w)) / options.num_parts * (1 + options.imbalance);
    limits.push_back(std::max(mean_up, static_cast<Count>(std::floor(share + 1e-9))));
  }
  return limits;
}

}  // namespace strata::partition
