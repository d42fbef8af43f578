// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <numeric>

#include "listed_entries.hpp"
#include "readers/typed_graph.hpp"
#include "strata/graph/relation_ranges.hpp"
#include "strata/util/error.hpp"
#include "strata/util/system.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

constexpr Count kNodesAtATime = 4096, kEndsPerPiece = Count{1} << 16;

std::size_t type_of(const std::string& name, const TypedParts& parts, const EdgeType& of) {
  const auto found = std::ranges::find(parts.nodes, name, &TypedParts::Nodes::type);
  if (found == parts.nodes.end())
    throw InputError(fmt::format("the relation {} names the type '{}', which the graph does not have",
                                 printable(name_of(of)), printable(name)),
                     "Give every type of nodes with its number of nodes.");
  return static_cast<std::size_t>(found - parts.nodes.begin());
}

GraphTypes types_of(const TypedParts& parts) {
  if (parts.nodes.empty() || parts.edges.empty())
    throw InputError("a graph of several types needs at least one type of nodes and one relation");
  if (parts.edges.size() > std::numeric_limits<RelationId>::max())
    throw InputError(fmt::format("the graph has {} relations; at most {} are possible", parts.edges.size(),
                                 std::numeric_limits<RelationId>::max()));
  GraphTypes types{.nodes = {}, .edges = {}, .node_offsets = {0}, .edge_offsets = {0}};
  for (const TypedParts::Nodes& nodes : parts.nodes) {
    if (nodes.count < 0 || std::ranges::count(types.nodes, nodes.type) > 0)
      throw InputError(
          fmt::format("the type '{}' is given twice, or has {} nodes", printable(nodes.type), nodes.count));
    types.nodes.push_back(nodes.type);
    types.node_offsets.push_back(types.node_offsets.back() + nodes.count);
  }
  for (const TypedParts::Edges& edges : parts.edges) {
    if (std::ranges::count(types.edges, edges.type) > 0)
      throw InputError(fmt::format("the relation {} is given twice", printable(name_of(edges.type))));
    types.edges.push_back(edges.type);
    types.edge_offsets.push_back(types.edge_offsets.back() + edges.list.count);
  }
  return types;
}

/// Writes the lists of all relations, one after the other, to their places in the lists of the graph.
class ListJoiner {
 public:
  ListJoiner(CscGraph& graph, ThreadPool& pool) : graph_(graph), pool_(pool) {
    graph_.indptr.assign(at(graph.num_nodes) + 1, 0);
    graph_.sublists.first.assign(at(graph.num_nodes) + 1, 0);
  }

  /// Makes room for the edges of a relation. Refuses an end that is no node of its type.
  void count(const RelationEdges& relation) {
    std::vector<std::atomic<Count>> degrees(at(relation.destinations.count));
    visit_ends(*relation.list, [&](const auto& ends) { count(relation, ends, degrees); });
    for (Count v = 0; v < relation.destinations.count; ++v) {
      graph_.indptr[at(relation.destinations.first + v) + 1] += degrees[at(v)];
      graph_.sublists.first[at(relation.destinations.first + v) + 1] += degrees[at(v)] > 0;
    }
  }

  void allocate(bool with_weights) {
    std::vector<Count>&indptr = graph_.indptr, &first = graph_.sublists.first;
    std::partial_sum(indptr.begin(), indptr.end(), indptr.begin());
    std::partial_sum(first.begin(), first.end(), first.begin());
    check_room(with_weights);
    graph_.indices.resize(at(indptr.back()));
    graph_.edge_ids.resize(at(indptr.back()));
    if (with_weights) graph_.weights.resize(at(indptr.back()));
    graph_.sublists.relations.resize(at(first.back()));
    graph_.sublists.begins.resize(at(first.back()) + 1, indptr.back());
    next_.assign(indptr.begin(), indptr.end() - 1);
    next_sublist_.assign(first.begin(), first.end() - 1);
  }

  /// Writes the lists of a relation behind those of the relations before.
  void append(RelationId number, const RelationEdges& relation, const CscGraph& lists) {
    pool_.parallel_for(relation.destinations.count, kNodesAtATime, [&](Count begin, Count end) {
      for (Count v = begin; v < end; ++v) append_list(number, relation, lists, v);
    });
    missing_ += relation.list->count - lists.num_edges();
  }

  /// Moves lists together if edges were removed.
  void close_gaps() {
    if (missing_ == 0) return;
    Sublists& sublists = graph_.sublists;
    Count entry = 0, sublist = 0;
    for (NodeId v = 0; v < graph_.num_nodes; ++v) {
      const Count first = std::exchange(graph_.indptr[at(v)], entry), last = next_[at(v)];
      for (Count s = std::exchange(sublists.first[at(v)], sublist); s < next_sublist_[at(v)]; ++s) {
        sublists.relations[at(sublist)] = sublists.relations[at(s)];
        sublists.begins[at(sublist++)] = sublists.begins[at(s)] - first + entry;
      }
      move_down(graph_.indices, first, last, entry);
      move_down(graph_.edge_ids, first, last, entry);
      if (!graph_.weights.empty()) move_down(graph_.weights, first, last, entry);
      entry += last - first;
    }
    graph_.indptr.back() = entry;
    sublists.first.back() = sublist;
    graph_.indices.resize(at(entry));
    graph_.edge_ids.resize(at(entry));
    if (!graph_.weights.empty()) graph_.weights.resize(at(entry));
    sublists.relations.resize(at(sublist));
    sublists.begins.resize(at(sublist) + 1);
    sublists.begins.back() = entry;
  }

 private:
  template <typename Id>
  void count(const RelationEdges& relation, const Ends<Id>& ends, std::vector<std::atomic<Count>>& degrees) {
    const Count num_edges = relation.list->count;
    std::atomic<Count> first_wrong{num_edges};
    pool_.parallel_for(num_edges, kEndsPerPiece, [&](Count begin, Count end) {
      for (Count e = begin; e < end; ++e) {
        if (!relation.may_join(ends.source(e), ends.destination(e))) {
          Count before = first_wrong;
          while (e < before && !first_wrong.compare_exchange_weak(before, e)) {
          }
          return;
        }
        degrees[at(ends.destination(e))].fetch_add(1, std::memory_order_relaxed);
      }
    });
    const Count wrong = first_wrong;
    if (wrong < num_edges) refuse_ends(relation, wrong, ends.source(wrong), ends.destination(wrong));
  }

  void check_room(bool with_weights) const {
    const std::int64_t wanted =
        graph_.indptr.back() * static_cast<Count>(2 * sizeof(Count) + (with_weights ? sizeof(float) : 0));
    const std::int64_t free = available_host_bytes();
    if (wanted <= free) return;
    throw OutOfMemory(
        fmt::format("no room for the lists of {} edges: wanted {}, free {}",
                    format_count(graph_.indptr.back()), format_bytes(wanted), format_bytes(free)),
        "Use a host with more memory.");
  }

  void append_list(RelationId number, const RelationEdges& relation, const CscGraph& lists, Count v) {
    const Count first = lists.indptr[at(v)], last = lists.indptr[at(v) + 1];
    if (first == last) return;
    const NodeId node = relation.destinations.first + v;
    Count& next = next_[at(node)];
    const Count sublist = next_sublist_[at(node)]++;
    graph_.sublists.relations[at(sublist)] = number;
    graph_.sublists.begins[at(sublist)] = next;
    const float* const weights = relation.list->weights;
    for (Count e = first; e < last; ++e, ++next) {
      const EdgeId edge = lists.edge_ids.empty() ? e : lists.edge_ids[at(e)];
      graph_.indices[at(next)] = relation.sources.first + lists.indices[at(e)];
      graph_.edge_ids[at(next)] = relation.first_edge + edge;
      if (!graph_.weights.empty()) graph_.weights[at(next)] = weights == nullptr ? 1 : weights[edge];
    }
  }

  template <typename T>
  static void move_down(std::vector<T>& values, Count first, Count last, Count to) {
    std::move(values.begin() + first, values.begin() + last, values.begin() + to);
  }

  CscGraph& graph_;
  ThreadPool& pool_;
  std::vector<Count> next_, next_sublist_;  ///< of each node: where its next relation goes
  Count missing_ = 0;                       ///< edges that cleaning removed
};

void add(const CleaningReport& report, CleaningReport& sum) {
  sum.edges_read += report.edges_read;
  sum.duplicates += report.duplicates;
  sum.duplicates_removed += report.duplicates_removed;
  sum.self_loops += report.self_loops;
  sum.self_loops_removed += report.self_loops_removed;
}

/// The lists of one relation. Only an edge within a type can be a self-loop.
BuiltCsc build_relation(const RelationEdges& relation, const ReadOptions& options, ThreadPool& pool) {
  const bool loops = relation.within_a_type();
  BuiltCsc built = build_csc(
      std::max(relation.sources.count, relation.destinations.count), *relation.list,
      {.duplicates = options.duplicates, .self_loops = loops ? options.self_loops : EdgePolicy::keep}, pool);
  if (!loops) built.cleaning.self_loops = 0;
  return built;
}

/// The relations, which view the parts. Sets the types and the number of nodes.
std::vector<RelationEdges> relations_of(const TypedParts& parts, Graph& graph) {
  graph.types = types_of(parts);
  graph.structure.num_nodes = graph.types.node_offsets.back();
  std::vector<RelationEdges> relations;
  for (const TypedParts::Edges& edges : parts.edges) {
    const std::size_t source = type_of(edges.type.source, parts, edges.type),
                      destination = type_of(edges.type.destination, parts, edges.type);
    relations.push_back({.list = &edges.list,
                         .sources = nodes_of_type(graph.types, source, graph.num_nodes()),
                         .destinations = nodes_of_type(graph.types, destination, graph.num_nodes()),
                         .first_edge = graph.types.edge_offsets[relations.size()],
                         .source_type = edges.type.source,
                         .destination_type = edges.type.destination});
  }
  return relations;
}

}  // namespace

void refuse_ends(const RelationEdges& relation, Count edge, NodeId source, NodeId destination) {
  const bool wrong_source = source < 0 || source >= relation.sources.count;
  throw InputError(fmt::format("{}: edge {} names node {} of the type '{}', which has {} nodes",
                               relation.list->origin, edge, wrong_source ? source : destination,
                               printable(wrong_source ? relation.source_type : relation.destination_type),
                               wrong_source ? relation.sources.count : relation.destinations.count),
                   "Ids count from 0 within each type.");
}

void join_lists(const TypedParts& parts, const ReadOptions& options, ThreadPool& pool, Graph& graph) {
  const std::vector<RelationEdges> relations = relations_of(parts, graph);
  ListJoiner joiner(graph.structure, pool);
  for (const RelationEdges& relation : relations) joiner.count(relation);
  joiner.allocate(std::ranges::any_of(
      relations, [](const RelationEdges& relation) { return relation.list->weights != nullptr; }));
  for (std::size_t r = 0; r < relations.size(); ++r) {
    const BuiltCsc built = build_relation(relations[r], options, pool);
    joiner.append(static_cast<RelationId>(r), relations[r], built.structure);
    add(built.cleaning, graph.cleaning);
  }
  joiner.close_gaps();
}

void join_stored_lists(const TypedParts& parts, const ReadOptions& options, Assembly& assembly,
                       Graph& graph) {
  const std::vector<RelationEdges> relations = relations_of(parts, graph);
  BuiltLists built = build_stored_lists(graph.num_nodes(), relations,
                                        {.duplicates = options.duplicates, .self_loops = options.self_loops},
                                        *assembly.scratch, assembly.pool);
  graph.cleaning = built.cleaning;
  assembly.lists = std::move(built.lists);
}

}  // namespace strata::graph
