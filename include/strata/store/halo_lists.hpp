// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/store/graph_view.hpp"
#include "strata/store/halo.hpp"

namespace strata::store {

/// Neighbor lists of some nodes of other machines, in host memory: `view` has the list of position s as that
/// of node view.first_node + s. A view, but for the index.
struct HaloLists {
  NodeIndex index;
  GraphView view;
};

}  // namespace strata::store
