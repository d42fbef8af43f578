// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <span>
#include <vector>

#include "strata/nn/decoder.hpp"
#include "task/edge_links.hpp"

namespace strata::train {

/// The links of a graph by one of their ends, which are no wrong answers when others are ranked. Takes 8 bytes per
/// link and side, and 16 per pair of node and relation. By original ids.
class KnownLinks {
 public:
  /// `undirected`: a link stands for both directions.
  KnownLinks(std::span<const Link> links, Count num_relations, bool undirected);

  /// The nodes, ascending, that the other end, `side`, of the relation's links of a node is.
  std::span<const NodeId> of(nn::Side side, NodeId node, Count relation) const;

 private:
  struct Lists {
    std::vector<std::int64_t> keys;  // distinct and ascending: node * relations + relation
    std::vector<Count> ends;         // [keys + 1]
    std::vector<NodeId> others;
  };
  Lists lists_of(std::span<const Link> links, nn::Side side, bool undirected) const;

  Count num_relations_;
  std::array<Lists, 2> lists_;  // by side
};

}  // namespace strata::train
