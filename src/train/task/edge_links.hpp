// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <vector>

#include "strata/batches/links.hpp"
#include "strata/comm/machine.hpp"
#include "strata/store/machine_graph.hpp"
#include "strata/train/config.hpp"

namespace strata::train {

/// Whether an edge is a link to learn, or to score: no self-loop, and of an undirected graph the direction
/// from the node of the lower id. Original ids.
inline bool is_link(NodeId source, NodeId destination, bool undirected) {
  return undirected ? source < destination : source != destination;
}

/// Global ids of nodes by original ids; takes 8 bytes per node.
std::vector<NodeId> global_ids_of(const store::MachineGraph& graph);

/// The edges that all machines' lists have, as links, in the order of the original ids of their destinations
/// and sources; takes 16 bytes per edge on each rank. Collective; the same on all ranks. Throws InputError if
/// there are none.
std::shared_ptr<const batches::LinkOptions> links_of(const store::MachineGraph& graph,
                                                     const TrainConfig& config, const comm::Ranks& ranks,
                                                     std::span<const NodeId> global_ids);

}  // namespace strata::train
