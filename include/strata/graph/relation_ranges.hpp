// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "strata/graph/graph.hpp"
#include "strata/graph/part_file.hpp"
#include "strata/util/ranges.hpp"

namespace strata::graph {

std::string name_of(const EdgeType& type);         ///< for people: "(author, writes, paper)"
std::string joined_name_of(const EdgeType& type);  ///< in files and options: "author__writes__paper"

/// Original ids of the nodes of a type: all of them if there is one type.
Range nodes_of_type(const GraphTypes& types, std::size_t type, Count num_nodes);
std::size_t type_of_node(const GraphTypes& types, NodeId original_id);  ///< its number
/// Edge ids of a relation: all of them if there is one.
Range edges_of_relation(const GraphTypes& types, std::size_t relation, Count num_edges);

/// Host memory that copies of all rows and neighbor lists of a type take on a machine, with edge ids.
std::int64_t bytes_of_copies(const Manifest& manifest, std::size_t type);
/// The types that every machine gets copies of: those of fewer nodes than `below`; by default the smallest
/// ones, as long as all their copies take at most a fiftieth of what a part takes on average. None of a graph
/// of one type or in one part.
std::vector<std::size_t> types_to_replicate(const Manifest& manifest, std::optional<Count> below);

/// The nodes of a type as a graph without edges, by their numbers within the type, with labels, splits and
/// names.
Graph nodes_of(const Graph& graph, std::size_t type);

/// Finds relations by edge ids, and says which edges they may have.
class RelationRanges {
 public:
  explicit RelationRanges(const GraphTypes& types);

  int size() const { return static_cast<int>(ends_.size()); }
  int relation_of(EdgeId edge) const;  ///< -1: of none
  /// Whether an edge of the relation may join nodes of these original ids.
  bool fits(int relation, NodeId source, NodeId destination) const;
  /// What is wrong with the list of a node, by original ids: edge ids without a relation, ends of a wrong
  /// type, entries out of the order (relation, source, edge id). Empty: nothing. Edge ids may be left out of
  /// a graph of one relation.
  std::string problem_of(NodeId node, std::span<const NodeId> sources,
                         std::span<const EdgeId> edge_ids) const;

 private:
  struct Ends {
    Range sources, destinations;
  };
  std::vector<EdgeId> offsets_;  // empty: one relation
  std::vector<Ends> ends_;       // by relation
};

/// Finds the sublists of lists that it is given one after the other.
class SublistScan {
 public:
  explicit SublistScan(const RelationRanges& ranges) : ranges_(ranges) {}

  void begin_list();
  /// Takes the next entries of the current list. Returns false if they are not in the order of relations.
  bool add(std::span<const EdgeId> edge_ids);
  /// The sublists of all lists, whose entries are counted from 0.
  Sublists finish() &&;

 private:
  const RelationRanges& ranges_;
  Sublists found_;
  Count entries_ = 0;
  int relation_ = -1;  // of the list's last entry
};

/// The most sublists of a node.
Count most_of_a_node(const Sublists& sublists);

/// The sublists of a graph, by its edge ids; none if it has one relation. REQUIRES: lists are in order.
Sublists sublists_of(const CscGraph& graph, const GraphTypes& types);

}  // namespace strata::graph
