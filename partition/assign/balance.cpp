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
    for (int kind = 0; kind < kinds_of(constraint, graph); ++kind) {
      std::vector<std::int32_t> w = weights_of(constraint, graph, train, kind);
      if (total(w) > 0)
        weights.push_back(std::move(w));
      else if (constraint != Constraint::types)
        spdlog::warn("--balance {}: nothing to balance, because all nodes together have 0",
                     name_of(constraint, graph, kind));
    }
  }
  return weights;
}

Count most_of_share(Count total, int num_parts, double imbalance) {
  const Count mean_up = (total + num_parts - 1) / num_parts;
  const double share = static_cast<double>(total) / num_parts * (1 + imbalance);
  return std::max(mean_up, static_cast<Count>(std::floor(share + 1e-9)));
}

std::vector<Count> limits_of(const Weights& weights, const AssignOptions& options) {
  std::vector<Count> limits;
  for (const auto& w : weights)
    limits.push_back(most_of_share(total(w), options.num_parts, options.imbalance));
  return limits;
}

void fill_empty_parts(int num_parts, const std::function<Count(Count)>& degree_of,
                      std::vector<std::int32_t>& part_of) {
  std::vector<Count> sizes(at(num_parts));
  const auto size_of = [&](std::int32_t part) -> Count& { return sizes[at(part)]; };
  for (const std::int32_t part : part_of) ++size_of(part);
  std::vector<std::int32_t> empty;
  for (std::int32_t part = 0; part < num_parts; ++part)
    if (size_of(part) == 0) empty.push_back(part);
  if (empty.empty()) return;
  std::vector<std::int32_t> nodes(part_of.size());
  std::iota(nodes.begin(), nodes.end(), 0);
  std::ranges::stable_sort(nodes, {}, degree_of);
  for (const std::int32_t v : nodes) {
    if (empty.empty()) return;
    std::int32_t& part = part_of[at(v)];
    if (size_of(part) < 2) continue;
    --size_of(part);
    part = empty.back();
    empty.pop_back();
  }
}

}  // namespace strata::partition
