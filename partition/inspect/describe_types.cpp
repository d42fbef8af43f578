// SPDX-License-Identifier: Apache-2.0
#include "inspect/describe_types.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <span>

#include "strata/graph/relation_ranges.hpp"
#include "strata/util/label_sets.hpp"
#include "strata/util/text.hpp"

namespace strata::partition {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostRelations = 50;  // in tables

Count cols_of(const graph::GraphTypes& types, std::size_t type, Count all) {
  return types.feature_cols.empty() ? all : types.feature_cols[type];
}

Count nodes_between(const std::vector<NodeId>& split, NodeId first, NodeId last) {
  return std::ranges::lower_bound(split, last) - std::ranges::lower_bound(split, first);
}

Count labelled_between(const graph::Graph& graph, NodeId first, NodeId last) {
  if (graph.labels.empty()) return 0;
  const LabelShape shape = graph.label_shape();
  Count labelled = 0;
  for (NodeId v = first; v < last; ++v)
    labelled += !shape.is_missing(graph.labels.data() + v * shape.words());
  return labelled;
}

/// Nodes and edges of each type, from their ranges of ids.
void take_ranges(const graph::GraphTypes& types, Count nodes, Count edges, Count feature_cols,
                 GraphSummary& summary) {
  for (std::size_t t = 0; t < types.nodes.size(); ++t)
    summary.node_types.push_back({.name = types.nodes[t],
                                  .nodes = graph::nodes_of_type(types, t, nodes).count,
                                  .feature_cols = cols_of(types, t, feature_cols)});
  for (std::size_t r = 0; r < types.edges.size(); ++r) {
    const auto type = std::ranges::find(types.nodes, types.edges[r].destination) - types.nodes.begin();
    const Count destinations = summary.node_types[at(type)].nodes,
                count = graph::edges_of_relation(types, r, edges).count;
    summary.relations.push_back(
        {.type = types.edges[r],
         .edges = count,
         .mean = destinations == 0 ? 0 : static_cast<double>(count) / static_cast<double>(destinations)});
  }
}

/// Finds the largest in-degree of each relation.
void find_largest(const graph::RelationRanges& ranges, const graph::ListsView& lists, GraphSummary& summary) {
  constexpr NodeId kNodesAtOnce = 4096;
  lists.edge_ids.visit([&](const auto* edge_ids) {
    for (NodeId v = 0; v < lists.num_nodes; ++v) {
      if (v % kNodesAtOnce == 0) lists.release_pages();
      int before = -1;
      Count met = 0;
      const Count first = lists.indptr[at(v)], last = lists.indptr[at(v) + 1];
      for (Count e = first; e < last; ++e) {
        const int relation = ranges.relation_of(lists.edge_ids.size == 0 ? e : Count{edge_ids[e]});
        met = relation == before ? met + 1 : 1;
        Count& most = summary.relations.at(at(relation)).most;
        most = std::max(most, met);
        before = relation;
      }
    }
  });
}

std::string cols_text(Count cols) { return cols == 0 ? "none" : format_count(cols); }

// What nobody counted is negative.
constexpr Count kUnknown = -1;
std::string count_text(Count count) { return count < 0 ? "-" : format_count(count); }
Json count_json(Count count) { return count < 0 ? Json() : Json(count); }

}  // namespace

void describe_types(const graph::Graph& graph, const graph::ListsView& lists, GraphSummary& summary) {
  if (!graph.types.typed()) return;
  take_ranges(graph.types, graph.num_nodes(), lists.num_edges(), graph.features.cols, summary);
  NodeId first = 0;
  for (GraphSummary::NodeType& type : summary.node_types) {
    const NodeId last = first + type.nodes;
    type.labelled = labelled_between(graph, first, last);
    type.train = nodes_between(graph.splits.train, first, last);
    type.valid = nodes_between(graph.splits.valid, first, last);
    type.test = nodes_between(graph.splits.test, first, last);
    first = last;
  }
  find_largest(graph::RelationRanges(graph.types), lists, summary);
}

std::string types_text(const GraphSummary& s) {
  if (s.node_types.empty()) return {};
  Table types({"type", "nodes", "features", "labelled", "train / valid / test"});
  for (const GraphSummary::NodeType& type : s.node_types)
    types.row(
        {printable(type.name), format_count(type.nodes), cols_text(type.feature_cols),
         count_text(type.labelled),
         fmt::format("{} / {} / {}", count_text(type.train), count_text(type.valid), count_text(type.test))});
  Table relations({"relation", "edges", "mean in-degree", "largest"});
  for (const GraphSummary::Relation& relation : s.relations | std::views::take(kMostRelations))
    relations.row({printable(graph::name_of(relation.type)), format_count(relation.edges),
                   fmt::format("{:.2f}", relation.mean), count_text(relation.most)});
  if (s.relations.size() > kMostRelations)
    relations.row({fmt::format("{} more", s.relations.size() - kMostRelations), "", "", ""});
  return types.str() + "\n" + relations.str() + "\n";
}

Json types_json(const GraphSummary& s) {
  Json nodes = Json::array(), relations = Json::array();
  for (const GraphSummary::NodeType& type : s.node_types)
    nodes.push_back({{"name", type.name},
                     {"nodes", type.nodes},
                     {"feature_cols", type.feature_cols},
                     {"labelled", count_json(type.labelled)},
                     {"splits",
                      {{"train", count_json(type.train)},
                       {"valid", count_json(type.valid)},
                       {"test", count_json(type.test)}}}});
  for (const GraphSummary::Relation& relation : s.relations)
    relations.push_back({{"source", relation.type.source},
                         {"name", relation.type.name},
                         {"destination", relation.type.destination},
                         {"edges", relation.edges},
                         {"mean_in_degree", relation.mean},
                         {"largest_in_degree", count_json(relation.most)}});
  return {{"nodes", nodes}, {"relations", relations}};
}

GraphSummary types_of(const graph::PartitionRecord& record) {
  const graph::Manifest& m = record.manifest;
  GraphSummary s;
  if (!m.types.typed()) return s;
  take_ranges(m.types, m.book.num_nodes(), m.num_edges, m.feature_cols, s);
  const graph::TypeFacts& facts = record.type_facts;
  for (std::size_t t = 0; t < s.node_types.size(); ++t) {
    const graph::TypeFacts::Nodes nodes =
        facts.nodes.empty() ? graph::TypeFacts::Nodes{kUnknown, kUnknown, kUnknown, kUnknown}
                            : facts.nodes[t];
    GraphSummary::NodeType& type = s.node_types[t];
    type.labelled = nodes.labelled;
    type.train = nodes.train;
    type.valid = nodes.valid;
    type.test = nodes.test;
  }
  for (std::size_t r = 0; r < s.relations.size(); ++r)
    s.relations[r].most = facts.nodes.empty() ? kUnknown : facts.largest_in_degree[r];
  return s;
}

graph::TypeFacts facts_of(const GraphSummary& summary) {
  graph::TypeFacts facts;
  for (const GraphSummary::NodeType& type : summary.node_types)
    facts.nodes.push_back({type.labelled, type.train, type.valid, type.test});
  for (const GraphSummary::Relation& relation : summary.relations)
    facts.largest_in_degree.push_back(relation.most);
  return facts;
}

}  // namespace strata::partition
