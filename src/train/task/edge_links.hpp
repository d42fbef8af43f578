// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "strata/batches/links.hpp"
#include "strata/comm/machine.hpp"
#include "strata/graph/relation_ranges.hpp"
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

/// An edge that is learned or scored.
struct Link {
  NodeId source = 0, destination = 0;  ///< original ids
  EdgeId edge = -1;                    ///< -1: edge ids are not loaded
  Count relation = 0;                  ///< its place among LinkTypes
  float weight = 1;
};

/// The relations whose edges are links.
class LinkTypes {
 public:
  LinkTypes(const TrainConfig& config, const graph::Manifest& manifest);

  Count size() const { return std::ssize(relations_); }
  /// The place of an edge's relation, -1 if its edges are no links. With one relation, edges need no ids.
  Count of(EdgeId edge) const;
  std::string name(Count relation) const;  ///< "author__writes__paper"
  /// Original ids of the nodes that ends of this relation's edges may be.
  Range sources(Count relation) const { return sources_[at(relation)]; }
  Range destinations(Count relation) const { return destinations_[at(relation)]; }
  std::size_t number(Count relation) const { return relations_[at(relation)]; }  ///< among the graph's
  /// The place of an edge, which has an id, among all edges of these relations as the input lists them.
  Count row_of(const Link& link) const { return link.edge - first_edges_[at(link.relation)]; }

 private:
  std::vector<std::size_t> relations_;
  std::vector<std::string> names_;
  std::vector<Range> sources_, destinations_;
  std::vector<EdgeId> first_edges_;  // less the edges of the relations before
  std::vector<Count> places_;        // by the graph's relations, -1: none
  graph::RelationRanges ranges_;
};

/// The links that all machines' lists have, in the order of relations and original ids of destinations and sources.
/// Collective; the same on all ranks.
std::vector<Link> listed_links(const store::MachineGraph& graph, const LinkTypes& types,
                               const comm::Ranks& ranks);

/// The links of a split that no list has, in the order of MachineGraph::held_edges().
std::vector<Link> held_links(const store::MachineGraph& graph, const LinkTypes& types, graph::Split split);

/// What a loader makes batches of; takes 16 bytes per link on each rank.
std::shared_ptr<const batches::LinkOptions> link_options(std::span<const Link> links, const LinkTypes& types,
                                                         const TrainConfig& config,
                                                         std::span<const NodeId> global_ids);

}  // namespace strata::train
