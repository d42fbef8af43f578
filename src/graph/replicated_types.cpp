// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <utility>

#include "strata/graph/relation_ranges.hpp"

namespace strata::graph {
namespace {

std::int64_t entry_bytes(const Manifest& manifest) {
  const bool wide = manifest.book.num_nodes() > std::numeric_limits<std::int32_t>::max();
  return static_cast<std::int64_t>((wide ? sizeof(NodeId) : sizeof(std::int32_t)) + sizeof(EdgeId) +
                                   (manifest.has_edge_weights ? sizeof(float) : 0));
}

}  // namespace

std::int64_t bytes_of_copies(const Manifest& manifest, std::size_t type) {
  const GraphTypes& types = manifest.types;
  Count entries = 0;
  for (std::size_t r = 0; r < types.edges.size(); ++r)
    if (types.edges[r].destination == types.nodes[type])
      entries += edges_of_relation(types, r, manifest.num_edges).count;
  const Count nodes = nodes_of_type(types, type, manifest.book.num_nodes()).count;
  const auto row_bytes =
      manifest.feature_row_bytes() + static_cast<std::int64_t>(sizeof(Count) + sizeof(NodeId));
  return nodes * row_bytes + entries * entry_bytes(manifest);
}

std::vector<std::size_t> types_to_replicate(const Manifest& manifest, std::optional<Count> below) {
  constexpr std::int64_t kShareOfPart = 50;
  const std::size_t types = manifest.types.nodes.size();
  std::vector<std::size_t> chosen;
  if (types == 1 || manifest.book.num_parts() == 1) return chosen;
  std::vector<std::pair<std::int64_t, std::size_t>> by_bytes;
  std::int64_t all_bytes = 0;
  for (std::size_t type = 0; type < types; ++type) {
    by_bytes.emplace_back(bytes_of_copies(manifest, type), type);
    all_bytes += by_bytes.back().first;
  }
  std::ranges::sort(by_bytes);
  std::int64_t left = all_bytes / manifest.book.num_parts() / kShareOfPart;
  for (const auto& [bytes, type] : by_bytes) {
    const Count nodes = nodes_of_type(manifest.types, type, manifest.book.num_nodes()).count;
    if (nodes == 0 || (below ? nodes >= *below : bytes > left)) continue;
    chosen.push_back(type);
    left -= bytes;
  }
  std::ranges::sort(chosen);
  return chosen;
}

}  // namespace strata::graph
