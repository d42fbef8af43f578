// SPDX-License-Identifier: Apache-2.0
#include "evaluation/needed_nodes.hpp"

namespace strata::train {
namespace {

/// The union of the set and the in-neighbors of its nodes. Collective.
std::unique_ptr<NodeSet> with_neighbors(const NodeSet& set, const NeededNodesRequest& request) {
  auto grown = std::make_unique<NodeSet>(set);
  const store::GraphView& graph = *request.graph;
  const Count first_rank = set.rank(graph.first_node),
              members = set.rank(graph.first_node + graph.num_local) - first_rank;
  const Count begin = first_rank + members * request.rank_of_machine / request.ranks_of_machine,
              end = first_rank + members * (request.rank_of_machine + 1) / request.ranks_of_machine;
  constexpr Count kGrain = 4096;
  request.pool->parallel_for(end - begin, kGrain, [&](Count piece_begin, Count piece_end) {
    set.for_ranks(begin + piece_begin, begin + piece_end, [&](NodeId node) {
      const NodeId v = node - graph.first_node;
      for (Count e = graph.indptr[v]; e < graph.indptr[v + 1]; ++e) grown->insert(graph.indices[e]);
    });
  });
  grown->unite(*request.communicator);
  return grown;
}

}  // namespace

NeededNodes find_needed_nodes(const NeededNodesRequest& request) {
  NeededNodes needed(at(request.num_layers));
  const auto few = [&](const NodeSet& set) {
    return static_cast<double>(set.size()) <= request.most * static_cast<double>(request.graph->num_nodes);
  };
  auto set = std::make_unique<NodeSet>(request.graph->num_nodes);
  request.for_scored([&](NodeId node) { set->insert(node); });
  set->unite(*request.communicator);
  for (std::size_t layer = needed.size(); layer-- > 0 && few(*set);) {
    auto before = layer > 0 ? with_neighbors(*set, request) : nullptr;
    needed[layer] = std::move(set);
    if (before == nullptr) break;
    set = std::move(before);
  }
  return needed;
}

}  // namespace strata::train
