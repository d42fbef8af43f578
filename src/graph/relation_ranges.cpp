// SPDX-License-Identifier: Apache-2.0
#include "strata/graph/relation_ranges.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "strata/util/error.hpp"

namespace strata::graph {

RelationRanges::RelationRanges(const GraphTypes& types) : offsets_(types.edge_offsets) {
  const auto ids_of = [&](const std::string& type) -> Ids {
    if (types.node_offsets.empty()) return {0, std::numeric_limits<NodeId>::max()};
    const auto t = static_cast<std::size_t>(std::ranges::find(types.nodes, type) - types.nodes.begin());
    return {types.node_offsets.at(t), types.node_offsets.at(t + 1)};
  };
  for (const EdgeType& edges : types.edges)
    ends_.push_back({ids_of(edges.source), ids_of(edges.destination)});
}

int RelationRanges::relation_of(EdgeId edge) const {
  if (edge < 0) return -1;
  if (offsets_.empty()) return 0;
  if (edge >= offsets_.back()) return -1;
  return static_cast<int>(std::ranges::upper_bound(offsets_, edge) - offsets_.begin()) - 1;
}

bool RelationRanges::fits(int relation, NodeId source, NodeId destination) const {
  const Ends& ends = ends_[at(relation)];
  return ends.sources.has(source) && ends.destinations.has(destination);
}

std::string RelationRanges::problem_of(NodeId node, std::span<const NodeId> sources,
                                       std::span<const EdgeId> edge_ids) const {
  int before = -1;
  for (std::size_t e = 0; e < sources.size(); ++e) {
    const EdgeId edge = edge_ids.empty() ? 0 : edge_ids[e];
    const int relation = relation_of(edge);
    if (relation < 0) return fmt::format("edge {} to node {} is of no relation", edge, node);
    if (!fits(relation, sources[e], node))
      return fmt::format("edge {} from node {} to node {} joins nodes of other types than its relation", edge,
                         sources[e], node);
    const bool falls = relation < before ||
                       (relation == before &&
                        (sources[e] < sources[e - 1] ||
                         (sources[e] == sources[e - 1] && !edge_ids.empty() && edge < edge_ids[e - 1])));
    if (falls)
      return fmt::format("in-neighbor {} of node {} is out of the order of relations and ids", sources[e],
                         node);
    before = relation;
  }
  return {};
}

void SublistScan::begin_list() {
  found_.first.push_back(found_.size());
  relation_ = -1;
}

bool SublistScan::add(std::span<const EdgeId> edge_ids) {
  for (const EdgeId edge : edge_ids) {
    const int relation = ranges_.relation_of(edge);
    if (relation < 0 || relation < relation_) return false;
    if (relation > relation_) {
      found_.relations.push_back(static_cast<RelationId>(relation));
      found_.begins.push_back(entries_);
      relation_ = relation;
    }
    ++entries_;
  }
  return true;
}

Sublists SublistScan::finish() && {
  found_.first.push_back(found_.size());
  found_.begins.push_back(entries_);
  return std::move(found_);
}

Sublists sublists_of(const CscGraph& graph, const GraphTypes& types) {
  if (types.edges.size() == 1) return {};
  const RelationRanges ranges(types);
  SublistScan scan(ranges);
  for (NodeId v = 0; v < graph.num_nodes; ++v) {
    scan.begin_list();
    const Count first = graph.indptr[at(v)], last = graph.indptr[at(v) + 1];
    if (!scan.add(std::span(graph.edge_ids).subspan(at(first), at(last - first))))
      throw Error(fmt::format("the list of node {} is not in the order of relations", v));
  }
  return std::move(scan).finish();
}

}  // namespace strata::graph
