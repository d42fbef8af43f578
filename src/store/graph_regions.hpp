// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/comm/machine.hpp"
#include "strata/plan/graph_shape.hpp"
#include "strata/store/graph_view.hpp"
#include "strata/tensor/host_array.hpp"

namespace strata::store {

using tensor::HostArray;
using tensor::HostIds;

/// Structure, labels and splits of a machine in host memory. An owner.
struct GraphRegions {
  plan::RegionSizes sizes;
  HostArray<Count> indptr;
  HostIds indices;
  HostArray<EdgeId> edge_ids;                      ///< size 0 if not asked for
  HostArray<float> weights;                        ///< size 0 if not asked for
  HostArray<Count> sublist_first, sublist_begins;  ///< as SublistsView; size 0: one relation
  HostArray<std::int32_t> sublist_nodes;
  HostArray<RelationId> sublist_relations;
  HostIds original_ids;                ///< [num_nodes + aliases]
  HostArray<std::int32_t> in_degrees;  ///< size 0 if not asked for
  HostArray<std::int32_t> labels;
  HostArray<NodeId> train, valid, test;
  HostArray<Count> valid_edges, test_edges;  ///< [edges, 3], as MachineGraph::held_edges()
  HostArray<std::int32_t> train_clusters;    ///< size 0 if not asked for

  static GraphRegions create(const comm::Machine& machine, const plan::RegionSizes& sizes);  ///< collective
  /// The same with an existing indptr, for callers that count edges before they know the sizes.
  static GraphRegions create(const comm::Machine& machine, const plan::RegionSizes& sizes,
                             HostArray<Count> indptr);
  GraphView view() const;        ///< of the machine's own nodes
  GraphView lists_view() const;  ///< of all nodes whose lists are here
  SublistsView sublists_view() const;
  GraphView own_nodes_of(GraphView lists) const;  ///< the part that view() is of lists_view()
};

}  // namespace strata::store
