// SPDX-License-Identifier: Apache-2.0
#include "strata/graph/relation_ranges.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "strata/util/error.hpp"

namespace strata::graph {

namespace {

Range range_of(const std::vector<Count>& offsets, std::size_t number, Count all) {
  if (offsets.empty()) return {0, all};
  return {offsets.at(number), offsets.at(number + 1) - offsets.at(number)};
}

bool has(const Range& ids, std::int64_t id) { return id >= ids.first && id < ids.end(); }

}  // namespace

std::string name_of(const EdgeType& type) {
  return fmt::format("({}, {}, {})", type.source, type.name, type.destination);
}

std::string joined_name_of(const EdgeType& type) {
  return fmt::format("{}__{}__{}", type.source, type.name, type.destination);
}

Range nodes_of_type(const GraphTypes& types, std::size_t type, Count num_nodes) {
  return range_of(types.node_offsets, type, num_nodes);
}

std::size_t type_of_node(const GraphTypes& types, NodeId original_id) {
  if (types.node_offsets.empty()) return 0;
  return at(std::ranges::upper_bound(types.node_offsets, original_id) - types.node_offsets.begin()) - 1;
}

Range edges_of_relation(const GraphTypes& types, std::size_t relation, Count num_edges) {
  return range_of(types.edge_offsets, relation, num_edges);
}

RelationRanges::RelationRanges(const GraphTypes& types) : offsets_(types.edge_offsets) {
  const auto ids_of = [&](const std::string& type) {
    const auto t = static_cast<std::size_t>(std::ranges::find(types.nodes, type) - types.nodes.begin());
    return nodes_of_type(types, t, std::numeric_limits<NodeId>::max());
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
  return has(ends.sources, source) && has(ends.destinations, destination);
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

Count most_of_a_node(const Sublists& sublists) {
  Count most = 0;
  for (std::size_t v = 0; v + 1 < sublists.first.size(); ++v)
    most = std::max(most, sublists.first[v + 1] - sublists.first[v]);
  return most;
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
