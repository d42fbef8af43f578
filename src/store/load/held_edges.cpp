// SPDX-License-Identifier: Apache-2.0
#include "load/held_edges.hpp"

namespace strata::store {

void write_held_edges(const graph::EdgeSplits& edges, const GraphRegions& regions) {
  const auto write = [](const graph::HeldEdges& held, Count* out) {
    for (std::size_t i = 0; i < held.edge_ids.size(); ++i) {
      *out++ = held.sources[i];
      *out++ = held.destinations[i];
      *out++ = held.edge_ids[i];
    }
  };
  write(edges.valid, regions.valid_edges.data());
  write(edges.test, regions.test_edges.data());
}

}  // namespace strata::store
