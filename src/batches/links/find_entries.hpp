// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <span>

#include "strata/batches/links.hpp"
#include "strata/store/graph_view.hpp"
#include "strata/util/threads.hpp"

namespace strata::batches {

/// The lists in which edges are looked for, in host memory.
struct SearchedLists {
  const store::GraphView& view;
  std::function<Count(NodeId)> list_of;  ///< the number of a node's list in the view, or -1
};

/// Finds the entries of lists that are edges from neighbors[i] to nodes[i], for each link i. A link's edge is
/// not in the lists if they have none for its node. Takes time for each link's own list, in whichever order
/// lists are.
LinkEntries find_entries(const SearchedLists& lists, std::span<const NodeId> nodes,
                         std::span<const NodeId> neighbors, const LinkEdges& edges, ThreadPool& pool);

}  // namespace strata::batches
