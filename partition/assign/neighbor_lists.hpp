// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "strata/partition/build.hpp"

namespace strata::partition {

/// Lists for partitioners: every pair of neighbors once in each direction, no self-loops or repetitions.
///
/// Borrows the graph's own lists if they already have this form; the graph must then stay alive. Moves, but
/// does not copy.
struct NeighborLists {
  Count num_nodes = 0;
  std::vector<Count> own_begin{};       ///< empty if borrowed
  std::vector<std::int32_t> own_ids{};  ///< empty if borrowed
  graph::StoredLists stored{};          ///< instead, of a graph whose lists lie in scratch files
  const Count* begin = nullptr;         ///< [num_nodes + 1]
  const std::int32_t* ids = nullptr;    ///< neighbors of v: ids[begin[v] .. begin[v + 1])

  NeighborLists() = default;
  NeighborLists(NeighborLists&&) = default;
  NeighborLists& operator=(NeighborLists&&) = default;
};

/// Throws if lists with these bounds, [num_nodes + 1], are too large for their user.
using AcceptSizes = std::function<void(Count num_nodes, const Count* begin)>;

/// Calls `accept`, if there is one, before the lists themselves are allocated. Throws InputError for more
/// nodes than 32 bits can number.
NeighborLists neighbor_lists(const CompactGraph& graph, const AcceptSizes& accept, ThreadPool& pool);

}  // namespace strata::partition
