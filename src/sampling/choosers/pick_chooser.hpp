// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "choosers/excluded.hpp"
#include "strata/sampling/neighbor_chooser.hpp"
#include "strata/sampling/sampler.hpp"
#include "strata/store/graph_view.hpp"
#include "strata/util/threads.hpp"

namespace strata::sampling {

/// The range of a node's in-neighbors, and what keys its random choice.
struct NeighborRange {
  Count begin = 0, degree = 0;
  NodeId original_id = 0;
  RelationId relation = 0;
  std::int32_t num_excluded = 0;  ///< of its entries; see PickQuery::excluded

  Count choices() const { return degree - num_excluded; }
};

/// The entries of a list that the query excludes.
inline ExcludedOfList excluded_of(const PickQuery& query, const NeighborRange& range) {
  if (range.num_excluded == 0) return {};
  const Count first = first_entry(query.excluded.data(), std::ssize(query.excluded), range.begin);
  return {.entries = query.excluded.data() + first, .count = range.num_excluded, .begin = range.begin};
}

/// Counts the entries of one list after the other that a query excludes. It remembers where it was, because
/// most nodes of a frontier ascend, and few have such entries.
class ExcludedCount {
 public:
  explicit ExcludedCount(const PickQuery& query) : entries_(query.excluded) {}

  std::int32_t operator()(const NeighborRange& range) {
    if (entries_.empty()) return 0;
    const Count size = std::ssize(entries_), end = range.begin + range.degree;
    const Count* const entries = entries_.data();
    const bool is_here =
        (next_ == 0 || entries[next_ - 1] < range.begin) && (next_ == size || entries[next_] >= range.begin);
    if (!is_here) next_ = first_entry(entries, size, range.begin);
    if (next_ == size || entries[next_] >= end) return 0;
    return static_cast<std::int32_t>(first_entry(entries + next_, size - next_, end));
  }

 private:
  std::span<const Count> entries_;
  Count next_ = 0;  // the first entry that is not before the last list
};

/// The range of a list of the view, without what keys it; empty for a node of another machine.
inline NeighborRange range_of(const store::GraphView& view, NodeId list, ExcludedCount& excluded) {
  if (!view.owns(list) || !view.keys.takes(list)) return {};
  const Count* entry = view.indptr + (list - view.first_node);
  NeighborRange range{.begin = entry[0], .degree = entry[1] - entry[0]};
  range.num_excluded = excluded(range);
  return range;
}

/// Sets what keys the choice from a list that is not empty.
inline void set_key(const store::GraphView& view, NodeId list, NeighborRange& range) {
  range.original_id = view.original_ids[view.keys.node_of(list)];
  range.relation = view.keys.relation_of(list, view.number);
}

/// What measure() finds about a query's nodes and choose() uses. The memory is reused at the next hop.
struct PickPlan {
  std::vector<NeighborRange> ranges;
  /// Positions in the nodes' lists, by piece of nodes; for choosers that must choose to know the number of
  /// picks.
  std::vector<std::vector<std::uint32_t>> positions;
  ChosenNeighbors chosen;  ///< for a user's chooser
  /// In a graph of several relations: the sublists of the nodes, in their order, -1 for a node of another
  /// machine; the first of each node, and the picks of each; and the plans for them by group of relations.
  std::vector<NodeId> lists;
  std::vector<Count> first_list, list_counts;
  std::vector<PickPlan> groups;
};

/// Room for the picks: those of node i are [offsets[i], offsets[i + 1]).
template <typename Id>
struct PickOutput {
  const Count* offsets = nullptr;
  Id* neighbors = nullptr;     ///< global ids
  EdgeId* edge_ids = nullptr;  ///< null: not wanted
};

/// Decides which neighbors a node gets, which is all that distinguishes one sampler from another. In host
/// memory.
///
/// A choice may depend on the query's key and hop and on original ids, never on the asking rank or time: see
/// docs/architecture.md#what-always-holds. `Id` is the type of global ids on devices and in messages.
template <typename Id>
class PickChooser {
 public:
  virtual ~PickChooser() = default;
  /// Sets counts[i] to the number of picks of node i, and fills `plan` for choose().
  virtual void measure(const PickQuery& query, PickPlan& plan, Count* counts) = 0;
  virtual void choose(const PickQuery& query, const PickPlan& plan, const PickOutput<Id>& out) = 0;
};

/// Makes the chooser that the options name. REQUIRES: the options are valid for the view.
template <typename Id>
std::unique_ptr<PickChooser<Id>> make_pick_chooser(const store::GraphView& view,
                                                   const SamplerOptions& options, ThreadPool& pool);

/// Uniform without replacement. A node with at most `fanout` neighbors gets all of them, in order.
template <typename Id>
std::unique_ptr<PickChooser<Id>> make_uniform_chooser(const store::GraphView& view, ThreadPool& pool);

/// Uniform with replacement: `fanout` draws for every node that has a neighbor.
template <typename Id>
std::unique_ptr<PickChooser<Id>> make_replacing_chooser(const store::GraphView& view, ThreadPool& pool);

/// Weighted without replacement, in the order of the lists.
template <typename Id>
std::unique_ptr<PickChooser<Id>> make_weighted_chooser(const store::GraphView& view, ThreadPool& pool);

/// Weighted with replacement: `fanout` draws for every node that has an edge of positive weight.
template <typename Id>
std::unique_ptr<PickChooser<Id>> make_weighted_replacing_chooser(const store::GraphView& view,
                                                                 ThreadPool& pool);

/// LABOR-0, in the order of the lists; see LaborRule.
template <typename Id>
std::unique_ptr<PickChooser<Id>> make_labor_chooser(const store::GraphView& view, bool layer_dependent,
                                                    ThreadPool& pool);

/// Chooses for each relation by itself, as the options say.
template <typename Id>
std::unique_ptr<PickChooser<Id>> make_sublist_chooser(const store::GraphView& view,
                                                      const SamplerOptions& options, ThreadPool& pool);

/// Calls the user's chooser and checks its picks. `chooser` must outlive the result.
template <typename Id>
std::unique_ptr<PickChooser<Id>> make_user_chooser(const store::GraphView& view, NeighborChooser& chooser,
                                                   bool edge_ids);

}  // namespace strata::sampling
