// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "readers/text/edge_buffer.hpp"
#include "readers/typed_graph.hpp"
#include "strata/util/threads.hpp"

namespace strata::graph {

/// Edges of many relations among nodes of one type, as they are read. An owner.
class TripleBuffer {
 public:
  explicit TripleBuffer(std::string origin) : edges_(std::move(origin)) {}

  /// Appends edges: pairs [n, 2] are their ends, and relations [n] their kinds.
  void append(std::span<const NodeId> pairs, std::span<const std::int32_t> relations, double share_read);

  Count size() const { return edges_.size(); }
  /// How many of the first `edges` are of each relation.
  std::vector<Count> counts(Count edges, std::size_t num_relations) const;
  NodeId largest() const { return edges_.largest(); }
  std::int32_t largest_relation() const { return largest_relation_; }

  /// Replaces every number of a node and of a relation by that of the maps.
  void renumber(std::span<const NodeId> nodes, std::span<const NodeId> relations, ThreadPool& pool);

  /// The edges of each relation, in the order in which they were appended; nothing can be appended then.
  /// REQUIRES: as many names as there are relations.
  std::vector<TypedParts::Edges> by_relation(const std::string& type, const std::vector<std::string>& names);

 private:
  EdgeBuffer edges_;
  std::vector<std::int32_t> relations_;
  std::int32_t largest_relation_ = -1;
};

}  // namespace strata::graph
