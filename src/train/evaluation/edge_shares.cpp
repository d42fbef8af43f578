// SPDX-License-Identifier: Apache-2.0
#include "evaluation/edge_shares.hpp"

namespace strata::train {

double EdgeShares::factor(NodeId node) const {
  const Count* ends = graph_->indptr + (node - graph_->first_node);
  double sum = 0;
  for (Count e = ends[0]; e < ends[1]; ++e) sum += static_cast<double>(graph_->weights[e]);
  return sum > 0 ? static_cast<double>(ends[1] - ends[0]) / sum : 0;
}

void EdgeShares::list(std::span<const NodeId> nodes, std::vector<float>& shares, ThreadPool& pool) const {
  const auto ends_of = [&](NodeId node) { return graph_->indptr + (node - graph_->first_node); };
  std::vector<Count> offsets{0};
  for (const NodeId node : nodes) offsets.push_back(offsets.back() + ends_of(node)[1] - ends_of(node)[0]);
  shares.resize(static_cast<std::size_t>(offsets.back()));
  constexpr Count kGrain = 256;
  pool.parallel_for(std::ssize(nodes), kGrain, [&](Count first, Count last) {
    for (Count i = first; i < last; ++i) {
      const NodeId node = nodes[static_cast<std::size_t>(i)];
      const double scale = factor(node);
      auto share = shares.begin() + offsets[static_cast<std::size_t>(i)];
      for (Count e = ends_of(node)[0]; e < ends_of(node)[1]; ++e) *share++ = of(e, scale);
    }
  });
}

}  // namespace strata::train
