// SPDX-License-Identifier: Apache-2.0
#include "evaluation/neighbor_lists.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <utility>

#include "torch_device.hpp"

namespace strata::train {

/// The number by which the weights of a list, or sublist, are multiplied.
double NeighborLists::factor(const Count* ends) const {
  double sum = 0;
  for (Count e = ends[0]; e < ends[1]; ++e) sum += static_cast<double>(options_.graph->weights[e]);
  return sum > 0 ? static_cast<double>(ends[1] - ends[0]) / sum : 0;
}

void NeighborLists::add_shares(const Count* ends, float* out) const {
  const double scale = factor(ends);
  for (Count e = ends[0]; e < ends[1]; ++e) *out++ = share(e, scale);
}

float NeighborLists::share(Count entry, double factor) const {
  return static_cast<float>(static_cast<double>(options_.graph->weights[entry]) * factor);
}

const float* NeighborLists::shares(std::span<const NodeId> nodes) {
  if (!options_.by_weight) return nullptr;
  const store::SublistsView& sublists = options_.graph->sublists;
  std::vector<Count> offsets{0};
  for (const NodeId node : nodes) offsets.push_back(offsets.back() + ends_of(node)[1] - ends_of(node)[0]);
  const at::Tensor all = at::empty({offsets.back()});
  constexpr Count kGrain = 256;
  options_.pool->parallel_for(std::ssize(nodes), kGrain, [&](Count first, Count last) {
    for (Count i = first; i < last; ++i) {
      const Count* const ends = ends_of(nodes[at(i)]);
      float* const out = all.mutable_data_ptr<float>() + offsets[at(i)];
      if (sublists.first == nullptr) {
        add_shares(ends, out);
        continue;
      }
      const Count* const list = sublists.first + (nodes[at(i)] - options_.graph->first_node);
      for (const Count* s = sublists.begins + list[0]; s < sublists.begins + list[1]; ++s)
        add_shares(s, out + (s[0] - ends[0]));
    }
  });
  arrays_ = {all.to(torch_device(options_.device))};
  return arrays_.front().const_data_ptr<float>();
}

sampling::Block NeighborLists::piece(NodeId node, Count begin, Count end) {
  if (options_.by_weight && std::exchange(node_, node) != node) factor_ = factor(ends_of(node));
  std::vector<NodeId> nodes{node};
  std::vector<std::int32_t> indices, in_degrees;
  std::vector<float> weights;
  const Count first = ends_of(node)[0];
  for (Count entry = first + begin; entry < first + end; ++entry) {
    if (options_.by_weight) {
      const float weight = share(entry, factor_);
      if (!(weight > 0)) continue;
      weights.push_back(weight);
    }
    const NodeId neighbor = options_.graph->indices[entry];
    indices.push_back(neighbor == node ? 0 : static_cast<std::int32_t>(nodes.size()));
    nodes.push_back(neighbor);
  }
  if (options_.in_degrees)
    for (const NodeId u : nodes) in_degrees.push_back(options_.graph->in_degrees[u]);

  arrays_.clear();
  const auto on_device = [&]<typename T>(const std::vector<T>& values) -> const T* {
    if (values.empty()) return nullptr;
    arrays_.push_back(at::tensor(values).to(torch_device(options_.device)));
    return arrays_.back().const_data_ptr<T>();
  };
  const Count num_edges = std::ssize(indices);
  return {.device = options_.device,
          .num_dst = 1,
          .num_src = std::ssize(nodes),
          .num_edges = num_edges,
          .indptr = on_device(std::vector<Count>{0, num_edges}),
          .indices = on_device(indices),
          .edge_weights = on_device(weights),
          .src_nodes = on_device(nodes),
          .src_in_degrees = on_device(in_degrees)};
}

}  // namespace strata::train
