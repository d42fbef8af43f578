// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>

#include "choosers/pick_chooser.hpp"

namespace strata::sampling {

/// A PickChooser for rules that look at all of a node's list, or at nothing of it, and return the positions
/// to take. measure() calls the rule, choose() copies the picks. A fanout of -1 takes all.
///
/// `Rule(view, query, settings)` makes a rule for a piece of a query, so a rule may hold scratch memory. It
/// has
///
///     void fetch(const NeighborRange&)                                    what take() will read first
///     void take(const NeighborRange&, std::vector<std::uint32_t>& positions)    appends numbers < choices()
/// REQUIRES: degrees below 2^32.
template <typename Id, typename Rule, typename Settings>
class ListChooser final : public PickChooser<Id> {
 public:
  ListChooser(const store::GraphView& view, const Settings& settings, ThreadPool& pool)
      : view_(view), settings_(settings), pool_(pool) {}

  void measure(const PickQuery& query, PickPlan& plan, Count* counts) override {
    const auto size = static_cast<Count>(query.nodes.size());
    if (std::ssize(plan.ranges) < size) plan.ranges.resize(at(size));
    const auto num_pieces = at((size + kNodesPerPiece - 1) / kNodesPerPiece);
    if (plan.positions.size() < num_pieces) plan.positions.resize(num_pieces);
    pool_.parallel_for(size, kNodesPerPiece, [&](Count begin, Count end) {
      NeighborRange* const ranges = plan.ranges.data();
      ExcludedCount excluded(query);
      for (Count i = begin; i < end; ++i) {
        if (i + kNodesAhead < end) fetch_node(query.nodes[at(i + kNodesAhead)]);
        ranges[i] = range_of(view_, query.nodes[at(i)], excluded);
        if (ranges[i].degree > 0) set_key(view_, query.nodes[at(i)], ranges[i]);
      }
      if (query.fanout < 0) {
        for (Count i = begin; i < end; ++i) counts[i] = ranges[i].choices();
        return;
      }
      Rule rule(view_, query, settings_);
      std::vector<std::uint32_t>& positions = plan.positions[at(begin / kNodesPerPiece)];
      positions.clear();
      for (Count i = begin; i < end; ++i) {
        if (i + kListsAhead < end) rule.fetch(ranges[i + kListsAhead]);
        const auto before = positions.size();
        if (ranges[i].choices() > 0 && query.fanout > 0) rule.take(ranges[i], positions);
        counts[i] = static_cast<Count>(positions.size() - before);
      }
    });
  }

  void choose(const PickQuery& query, const PickPlan& plan, const PickOutput<Id>& out) override {
    view_.indices.visit([&](const auto* indices) {
      view_.edge_ids.visit([&](const auto* edge_ids) {
        pool_.parallel_for(static_cast<Count>(query.nodes.size()), kNodesPerPiece,
                           [&](Count begin, Count end) {
                             const auto copy = [&](Count pick, Count edge) {
                               out.neighbors[pick] = static_cast<Id>(indices[edge]);
                               if (out.edge_ids != nullptr) out.edge_ids[pick] = edge_ids[edge];
                             };
                             visit_picks({begin, end}, query, plan, out.offsets, copy);
                           });
      });
    });
  }

 private:
  static constexpr Count kNodesPerPiece = 512;  // a piece may have many long lists
  static constexpr Count kNodesAhead = 16, kListsAhead = 4;

  struct Piece {
    Count begin, end;
  };

  /// Calls copy(pick, edge) for the picks of the piece's nodes, except those of remote nodes.
  template <typename Copy>
  static void visit_picks(const Piece& piece, const PickQuery& query, const PickPlan& plan,
                          const Count* offsets, Copy&& copy) {
    const std::uint32_t* position = nullptr;
    if (query.fanout >= 0) position = plan.positions[at(piece.begin / kNodesPerPiece)].data();
    for (Count i = piece.begin; i < piece.end; ++i) {
      const NeighborRange& range = plan.ranges[at(i)];
      if (range.degree == 0) continue;
      const ExcludedOfList excluded = excluded_of(query, range);
      for (Count pick = offsets[i]; pick < offsets[i + 1]; ++pick)
        copy(pick,
             range.begin + excluded.place_of(position == nullptr ? pick - offsets[i] : Count{*position++}));
    }
  }

  void fetch_node(NodeId node) const {
    if (!view_.owns(node)) return;
    __builtin_prefetch(view_.indptr + (node - view_.first_node));
    if (view_.keys.nodes != nullptr) return;
    view_.original_ids.visit([&](const auto* ids) { __builtin_prefetch(ids + node); });
  }

  const store::GraphView& view_;
  Settings settings_;
  ThreadPool& pool_;
};

/// Settings of rules without settings.
struct NoSettings {};

/// The key of a node's random choices.
inline std::uint64_t choice_key(const PickQuery& query, const NeighborRange& range) {
  return node_key(query.key, RandomUse::sample, query.hop, range.original_id, range.relation);
}

/// The weights of lists without their excluded entries.
class ListWeights {
 public:
  ListWeights(const float* weights, const PickQuery& query) : weights_(weights), query_(query) {}

  /// [range.choices()]; valid until the next call.
  const float* of(const NeighborRange& range) {
    const float* const list = weights_ + range.begin;
    if (range.num_excluded == 0) return list;
    const ExcludedOfList excluded = excluded_of(query_, range);
    of_choices_.clear();
    for (Count choice = 0; choice < range.choices(); ++choice)
      of_choices_.push_back(list[excluded.place_of(choice)]);
    return of_choices_.data();
  }

 private:
  const float* weights_;
  const PickQuery& query_;
  std::vector<float> of_choices_;
};

/// Prefetches the first cache lines of a list; the hardware prefetches the others.
template <typename T>
void fetch_list(const T* list, const NeighborRange& range) {
  constexpr Count kLine = 64 / sizeof(T), kMost = 4 * kLine;
  for (Count i = 0; i < std::min(range.degree, kMost); i += kLine) __builtin_prefetch(list + range.begin + i);
}

}  // namespace strata::sampling
