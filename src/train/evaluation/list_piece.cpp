// SPDX-License-Identifier: Apache-2.0
#include "evaluation/list_piece.hpp"

#include <utility>

#include "strata/cuda/stream.hpp"

namespace strata::train {

ListPiece::Blocks ListPiece::read(NodeId node, Count begin, Count end, const cuda::Stream& stream) {
  if (options_.by_weight && std::exchange(node_, node) != node) factor_ = shares_.factor(node);
  nodes_.values.assign(1, node);
  indices_.values.clear();
  weights_.values.clear();
  const Count first = options_.graph->indptr[node - options_.graph->first_node];
  for (Count entry = first + begin; entry < first + end; ++entry) add(node, entry);
  const Count num_edges = std::ssize(indices_.values);
  indptr_.values = {0, 0, num_edges};  // first for the node without edges, then for the piece

  const Device device = options_.device;
  const Count* indptr = indptr_.on(device, "a piece of a hub's list", stream);
  sampling::Block block{.device = device,
                        .num_dst = 1,
                        .num_src = std::ssize(nodes_.values),
                        .num_edges = num_edges,
                        .indptr = indptr + 1,
                        .indices = indices_.on(device, "a piece of a hub's list", stream),
                        .src_nodes = nodes_.on(device, "nodes of a piece of a hub's list", stream)};
  if (options_.by_weight) block.edge_weights = weights_.on(device, "weights of a hub's edges", stream);
  if (options_.in_degrees) {
    in_degrees_.values.clear();
    for (const NodeId u : nodes_.values) in_degrees_.values.push_back(options_.graph->in_degrees[u]);
    block.src_in_degrees = in_degrees_.on(device, "degrees of a hub's neighbors", stream);
  }
  sampling::Block own = block;
  own.num_src = 1;
  own.num_edges = 0;
  own.indptr = indptr;
  return {.piece = block, .own = own};
}

void ListPiece::add(NodeId node, Count entry) {
  if (options_.by_weight) {
    const float weight = shares_.of(entry, factor_);
    if (!(weight > 0)) return;
    weights_.values.push_back(weight);
  }
  const NodeId neighbor = options_.graph->indices[entry];
  indices_.values.push_back(neighbor == node ? 0 : static_cast<std::int32_t>(nodes_.values.size()));
  nodes_.values.push_back(neighbor);
}

}  // namespace strata::train
