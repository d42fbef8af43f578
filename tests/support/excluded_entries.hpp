// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <vector>

#include "support/reference_sampler.hpp"

namespace strata::test {

/// Some entries of a graph's lists, ascending: about one of each node's, and most of every 50th node's.
inline std::vector<Count> some_entries(const PlainGraph& graph, std::uint64_t seed) {
  std::vector<Count> entries;
  for (NodeId v = 0; v < graph.num_nodes(); ++v) {
    const auto degree = static_cast<std::uint64_t>(graph.degree(v));
    for (std::uint64_t place = 0; place < degree; ++place) {
      const std::uint64_t word = mix64(seed + mix64(static_cast<std::uint64_t>(v)) + place);
      const bool is_taken = v % 50 == 0 ? word % 8 != 0 : word % degree == 0;
      if (is_taken) entries.push_back(graph.indptr[at(v)] + static_cast<Count>(place));
    }
  }
  return entries;
}

/// The same graph without these ascending entries.
inline PlainGraph without(const PlainGraph& graph, const std::vector<Count>& entries) {
  PlainGraph rest = graph;
  const auto keep = [&](auto& values) {
    auto left = values;
    left.clear();
    for (std::size_t e = 0; e < values.size(); ++e)
      if (!std::ranges::binary_search(entries, static_cast<Count>(e))) left.push_back(values[e]);
    values = left;
  };
  keep(rest.indices);
  keep(rest.edge_ids);
  keep(rest.weights);
  keep(rest.relations);
  for (Count& position : rest.indptr)
    position -= std::ranges::lower_bound(entries, position) - entries.begin();
  return rest;
}

}  // namespace strata::test
