// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "strata/graph/part_file.hpp"
#include "strata/graph/relation_ranges.hpp"

namespace strata::graph {
namespace {

void append(const HeldEdges& edges, HeldEdges& all) {
  all.sources.insert(all.sources.end(), edges.sources.begin(), edges.sources.end());
  all.destinations.insert(all.destinations.end(), edges.destinations.begin(), edges.destinations.end());
  all.edge_ids.insert(all.edge_ids.end(), edges.edge_ids.begin(), edges.edge_ids.end());
}

/// What is wrong with the edges of a part; empty: nothing.
std::string problem_of(const HeldEdges& edges, const RelationRanges& ranges, Count num_nodes) {
  const auto is_node = [&](NodeId node) { return node >= 0 && node < num_nodes; };
  for (std::size_t i = 0; i < edges.edge_ids.size(); ++i) {
    const NodeId from = edges.sources[i], to = edges.destinations[i];
    const int relation = ranges.relation_of(edges.edge_ids[i]);
    if (!is_node(from) || !is_node(to) || relation < 0 || !ranges.fits(relation, from, to))
      return fmt::format("edge {} from node {} to node {} cannot be one of a split", edges.edge_ids[i], from,
                         to);
  }
  return {};
}

}  // namespace

HeldEdges in_order(const HeldEdges& edges) {
  std::vector<std::size_t> order(edges.edge_ids.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) {
    return std::tuple(edges.edge_ids[i], edges.sources[i], edges.destinations[i]);
  });
  HeldEdges result;
  for (const std::size_t i : order) {
    result.sources.push_back(edges.sources[i]);
    result.destinations.push_back(edges.destinations[i]);
    result.edge_ids.push_back(edges.edge_ids[i]);
  }
  return result;
}

EdgeSplits read_edge_splits(const PartsOrigin& parts, const Manifest& manifest, Verify verify) {
  if (!manifest.holds_edges_out()) return {};
  const RelationRanges ranges(manifest.types);
  EdgeSplits splits;
  for (int part = 0; part < manifest.book.num_parts(); ++part) {
    const PartReader reader = PartReader::open(parts, manifest, part, verify);
    for (const auto& [split, all] : {std::pair(Split::valid, &splits.valid), {Split::test, &splits.test}}) {
      const HeldEdges edges = reader.read_held_edges(split);
      if (const std::string problem = problem_of(edges, ranges, manifest.book.num_nodes()); !problem.empty())
        refuse_damaged(parts, part, problem);
      append(edges, *all);
    }
  }
  splits = {.valid = in_order(splits.valid), .test = in_order(splits.test)};
  if (splits.valid.size() != manifest.num_valid_edges || splits.test.size() != manifest.num_test_edges)
    refuse_damaged(
        parts, 0,
        fmt::format("all parts have {} and {} edges of validation and test, the manifest {} and {}",
                    splits.valid.size(), splits.test.size(), manifest.num_valid_edges,
                    manifest.num_test_edges));
  return splits;
}

}  // namespace strata::graph
