// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/store/graph_view.hpp"
#include "strata/store/halo.hpp"

namespace strata::store {

/// Neighbor lists of some nodes of other machines, in host memory. `index` gives a node's position s; its
/// list is the one that `view` has for node view.first_node + s. A view, except for the index.
struct HaloLists {
  NodeIndex index;
  GraphView view;
};

}  // namespace strata::store
