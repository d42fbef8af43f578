// SPDX-License-Identifier: Apache-2.0
#include "graph_regions.hpp"

#include <utility>

#include "strata/plan/graph_shape.hpp"

namespace strata::store {

GraphRegions GraphRegions::create(const comm::Machine& machine, const plan::RegionSizes& sizes) {
  return create(machine, sizes,
                HostArray<Count>::create(machine, sizes.num_lists() + 1, name_of(plan::GraphTensor::indptr)));
}

GraphRegions GraphRegions::create(const comm::Machine& machine, const plan::RegionSizes& sizes,
                                  HostArray<Count> indptr) {
  const auto if_asked = [](bool asked, Count size) { return asked ? size : 0; };
  return {
      .sizes = sizes,
      .indptr = std::move(indptr),
      .indices = HostIds::create(machine, sizes.local_edges, sizes.wide_nodes(),
                                 name_of(plan::GraphTensor::indices)),
      .edge_ids = HostArray<EdgeId>::create(machine, if_asked(sizes.edge_ids, sizes.local_edges),
                                            name_of(plan::GraphTensor::edge_ids)),
      .weights = HostArray<float>::create(machine, if_asked(sizes.weights, sizes.local_edges),
                                          name_of(plan::GraphTensor::weights)),
      .sublist_first = HostArray<Count>::create(
          machine, if_asked(sizes.num_relations > 1, sizes.num_lists() + 1), "sublists"),
      .sublist_begins = HostArray<Count>::create(
          machine, if_asked(sizes.num_relations > 1, sizes.sublists + 1), "sublists"),
      .sublist_nodes = HostArray<std::int32_t>::create(machine, sizes.sublists, "sublists"),
      .sublist_relations = HostArray<RelationId>::create(machine, sizes.sublists, "sublists"),
      .original_ids = HostIds::create(machine, sizes.num_nodes + sizes.aliases, sizes.wide_nodes(),
                                      name_of(plan::GraphTensor::original_ids)),
      .in_degrees = HostArray<std::int32_t>::create(machine, if_asked(sizes.in_degrees, sizes.num_nodes),
                                                    name_of(plan::GraphTensor::in_degrees)),
      .labels = HostArray<std::int32_t>::create(machine, sizes.num_local * sizes.label_words, "labels"),
      .train = HostArray<NodeId>::create(machine, sizes.num_train, "training nodes"),
      .valid = HostArray<NodeId>::create(machine, sizes.local_valid, "validation nodes"),
      .test = HostArray<NodeId>::create(machine, sizes.local_test, "test nodes"),
      .valid_edges = HostArray<Count>::create(machine, 3 * sizes.num_valid_edges, "validation edges"),
      .test_edges = HostArray<Count>::create(machine, 3 * sizes.num_test_edges, "test edges"),
      .train_clusters = HostArray<std::int32_t>::create(
          machine, if_asked(sizes.train_clusters, sizes.num_train), "clusters of training nodes"),
  };
}

GraphView GraphRegions::view() const { return own_nodes_of(lists_view()); }

GraphView GraphRegions::own_nodes_of(GraphView lists) const {
  lists.indptr += sizes.first_node - lists.first_node;
  if (lists.sublists.first != nullptr) {
    lists.sublists.first += sizes.first_node - lists.first_node;
    lists.sublists.lists_before = static_cast<std::int32_t>(sizes.first_node - lists.first_node);
  }
  lists.first_node = sizes.first_node;
  lists.num_local = sizes.num_local;
  return lists;
}

GraphView GraphRegions::lists_view() const {
  IdSpan original = original_ids.view();
  original.size = sizes.num_nodes;
  return {{.device = {},
           .num_nodes = sizes.num_nodes,
           .first_node = sizes.first_list(),
           .num_local = sizes.num_lists(),
           .original_ids = original,
           .in_degrees = in_degrees.size() > 0 ? in_degrees.data() : nullptr},
          {.indptr = indptr.data(),
           .indices = indices.view(),
           .edge_ids = {.data = edge_ids.data(), .size = edge_ids.size(), .wide = true},
           .weights = weights.size() > 0 ? weights.data() : nullptr,
           .sublists = sublists_view()}};
}

SublistsView GraphRegions::sublists_view() const {
  if (sizes.num_relations == 1) return {};
  return {.count = sizes.sublists,
          .most_per_node = sizes.most_sublists,
          .num_relations = sizes.num_relations,
          .first = sublist_first.data(),
          .begins = sublist_begins.data(),
          .nodes = sublist_nodes.data(),
          .relations = sublist_relations.data()};
}

}  // namespace strata::store
