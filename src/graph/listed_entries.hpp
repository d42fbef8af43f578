// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <compare>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "build_csc.hpp"
#include "stored_lists.hpp"

/// Sources of the entries of lists. Each has count(), and visit(begin, end, emit), which calls
/// emit(destination, source, edge) for a range of what is counted, each time the same.
namespace strata::graph {

/// The weight of edges that have none.
struct NoWeight {
  auto operator<=>(const NoWeight&) const = default;
};

/// The relation of every entry of a graph that has one.
struct NoRelation {
  auto operator<=>(const NoRelation&) const = default;
};
struct OfOneRelation {
  using Relation = NoRelation;
  static NoRelation relation_of(EdgeId) { return {}; }
};

/// The number of an edge that nobody asks for.
struct NoEdge {
  NoEdge() = default;
  explicit NoEdge(EdgeId) {}
  auto operator<=>(const NoEdge&) const = default;
};

/// The ends of edges, by their numbers in a list.
template <typename Id>
struct Ends {
  const Id *sources, *destinations;
  Count stride;

  NodeId source(Count edge) const { return sources[edge * stride]; }
  NodeId destination(Count edge) const { return destinations[edge * stride]; }
};

/// Calls visit(ends) with the type of the ids.
template <typename Visit>
void visit_ends(const EdgeList& list, Visit&& visit) {
  const auto as = [&]<typename Id>(Id) {
    visit(Ends<Id>{static_cast<const Id*>(list.sources), static_cast<const Id*>(list.destinations),
                   list.stride});
  };
  list.wide ? as(std::int64_t{}) : as(std::int32_t{});
}

/// Entries that are dealt to runs of nodes: what a list of edges holds. `WeightOfEdge` is float or NoWeight.
template <typename Id, typename WeightOfEdge>
class ListedEdges : public OfOneRelation {
 public:
  using Weight = WeightOfEdge;

  ListedEdges(const EdgeList& list, Count num_nodes, bool add_reverse)
      : list_(list),
        ends_{static_cast<const Id*>(list.sources), static_cast<const Id*>(list.destinations), list.stride},
        num_nodes_(num_nodes),
        add_reverse_(add_reverse) {}

  Count count() const { return list_.count; }
  Weight weight_of([[maybe_unused]] EdgeId edge) const {
    if constexpr (std::is_same_v<Weight, float>)
      return list_.weights[edge];
    else
      return {};
  }

  template <typename Emit>
  void visit(Count begin, Count end, Emit&& emit) const {
    const auto limit = static_cast<std::uint64_t>(num_nodes_);
    for (Count i = begin; i < end; ++i) {
      const NodeId source = ends_.source(i), destination = ends_.destination(i);
      if (static_cast<std::uint64_t>(source) >= limit || static_cast<std::uint64_t>(destination) >= limit)
        refuse_id(list_, i, source, destination, num_nodes_);
      emit(destination, source, i);
      if (add_reverse_ && source != destination) emit(source, destination, i);
    }
  }

 private:
  const EdgeList& list_;
  Ends<Id> ends_;
  Count num_nodes_;
  bool add_reverse_;
};

/// The same of several relations, whose edges are counted one relation after the other.
template <typename WeightOfEdge>
class RelationEntries {
 public:
  using Weight = WeightOfEdge;
  using Relation = RelationId;

  explicit RelationEntries(std::span<const RelationEdges> relations) : relations_(relations) {
    for (const RelationEdges& relation : relations) first_edges_.push_back(relation.first_edge);
  }

  Count count() const { return relations_.back().first_edge + relations_.back().list->count; }
  Relation relation_of(EdgeId edge) const {
    return static_cast<Relation>(std::ranges::upper_bound(first_edges_, edge) - first_edges_.begin() - 1);
  }
  Weight weight_of([[maybe_unused]] EdgeId edge) const {
    if constexpr (std::is_same_v<Weight, float>) {
      const RelationEdges& relation = relations_[relation_of(edge)];
      return relation.list->weights == nullptr ? 1 : relation.list->weights[edge - relation.first_edge];
    } else {
      return {};
    }
  }

  template <typename Emit>
  void visit(Count begin, Count end, Emit&& emit) const {
    for (const RelationEdges& relation : relations_) {
      const EdgeId first = relation.first_edge;
      const Count from = std::max(begin - first, Count{0}), to = std::min(end - first, relation.list->count);
      visit_ends(*relation.list, [&](const auto& ends) {
        for (Count e = from; e < to; ++e) {
          const NodeId source = ends.source(e), destination = ends.destination(e);
          if (!relation.may_join(source, destination)) refuse_ends(relation, e, source, destination);
          emit(relation.destinations.first + destination, relation.sources.first + source, first + e);
        }
      });
    }
  }

 private:
  std::span<const RelationEdges> relations_;
  std::vector<EdgeId> first_edges_;
};

/// The same of edges that are drawn.
class Draws : public OfOneRelation {
 public:
  using Weight = NoWeight;

  Draws(const DrawnEdges& edges, bool add_reverse) : edges_(edges), add_reverse_(add_reverse) {}

  Count count() const { return edges_.units; }
  NoWeight weight_of(EdgeId) const { return {}; }

  template <typename Emit>
  void visit(Count begin, Count end, Emit&& emit) const {
    edges_.draw(begin, end, [&](NodeId source, NodeId destination, EdgeId edge) {
      emit(destination, source, edge);
      if (add_reverse_ && source != destination) emit(source, destination, edge);
    });
  }

 private:
  const DrawnEdges& edges_;
  bool add_reverse_;
};

/// The same of lists: both directions of every entry, without self-loops. Counted in nodes.
class BothDirections : public OfOneRelation {
 public:
  using Weight = NoWeight;

  BothDirections(std::span<const Count> indptr, IdSpan indices) : indptr_(indptr), indices_(indices) {}

  Count count() const { return std::ssize(indptr_) - 1; }
  NoWeight weight_of(EdgeId) const { return {}; }

  template <typename Emit>
  void visit(Count begin, Count end, Emit&& emit) const {
    indices_.visit([&](const auto* sources) {
      for (Count v = begin; v < end; ++v)
        for (Count e = first_of(v); e < first_of(v + 1); ++e) {
          if (sources[e] == v) continue;
          emit(v, NodeId{sources[e]}, 0);
          emit(NodeId{sources[e]}, v, 0);
        }
    });
  }

 private:
  Count first_of(Count v) const { return indptr_[at(v)]; }

  std::span<const Count> indptr_;
  IdSpan indices_;
};

}  // namespace strata::graph
