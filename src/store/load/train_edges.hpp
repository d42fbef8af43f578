// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "graph_regions.hpp"
#include "strata/comm/machine.hpp"
#include "strata/graph/edge_split.hpp"
#include "strata/store/machine_graph.hpp"

namespace strata::store {

/// The neighbor lists that regions had before keep_train_edges(). An owner.
struct WholeLists {
  HostArray<Count> indptr;
  HostIds indices;
  HostArray<EdgeId> edge_ids;  ///< size 0 if not loaded, as weights and in_degrees
  HostArray<float> weights;
  HostArray<Count> sublist_begins;  ///< size 0: one relation
  HostArray<std::int32_t> in_degrees;

  /// `lists`, a view of the regions' lists, with these arrays in place of theirs.
  GraphView in_place_of(GraphView lists) const;
  std::int64_t bytes() const;
};

/// Leaves only the split's edges of training in the lists of `regions`; the others become its held edges, without
/// ids where edge ids are not loaded. In-degrees stay: see count_degrees(). Collective over `world`: the ranks of all
/// machines among which the graph is divided; throws on all ranks alike.
void hold_out_edges(GraphRegions& regions, const graph::EdgeSplit& split, const graph::Manifest& manifest,
                    const comm::Machine& machine, const comm::Communicator& world);

/// Sets the in-degrees of all nodes to those of the lists, with or without self-loops. Does nothing for
/// regions without in-degrees. Collective over `world`: the ranks of all machines among which the graph is
/// divided.
void count_degrees(const GraphRegions& regions, const comm::Machine& machine, const comm::Communicator& world,
                   bool with_loops);

/// Leaves only the edges whose two ends inductive training sees in the lists of `regions`; other nodes then
/// have empty lists. It sees training nodes, and all nodes of types that have no training node. Returns the lists
/// of before. In-degrees stay: see count_train_degrees(). Collective over the machine; throws on all ranks
/// alike.
WholeLists keep_train_edges(GraphRegions& regions, const graph::GraphTypes& types,
                            const comm::Machine& machine);

/// As count_degrees(), after keep_train_edges() of a graph of one type.
void count_train_degrees(const GraphRegions& regions, const comm::Machine& machine,
                         const comm::Communicator& world, bool with_loops);

}  // namespace strata::store
