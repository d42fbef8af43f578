// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <limits>

#include "choosers/pick_chooser.hpp"
#include "choosers/subset_cpu.hpp"
#include "strata/sampling/sampler.hpp"

namespace strata::sampling {
namespace {

constexpr Count kNodesPerPiece = 1024;  // work of one call of a loop body: tens of microseconds
constexpr Count kPicksPerBatch = 512;   // their neighbors are fetched ahead together
constexpr Count kNodesPerBatch = 64;    // the same for small fanouts
constexpr Count kPrefetchAhead = 16;
constexpr Count kPrefetchedRun = 64;

template <typename T>
void prefetch(const T* address) {
  __builtin_prefetch(address);
}

template <typename T>
void prefetch_run(const T* begin, Count count) {
  const Count ahead = std::min<Count>(count, kPrefetchedRun);  // the hardware prefetches longer runs
  for (Count i = 0; i < ahead; i += static_cast<Count>(64 / sizeof(T))) prefetch(begin + i);
}

/// The graph's arrays with their types.
template <typename In, typename Edge>
struct TypedLists {
  const In* indices;
  const Edge* edge_ids;
};

/// Chooses the picks of some consecutive nodes of a query. First the positions of a batch of nodes are
/// computed and their neighbors fetched ahead, then the neighbors are read.
template <typename Id, typename In, typename Edge>
class PieceChooser {
 public:
  PieceChooser(const TypedLists<In, Edge>& lists, const PickQuery& query, const PickPlan& plan,
               const PickOutput<Id>& out)
      : lists_(lists),
        query_(query),
        plan_(plan),
        out_(out),
        nodes_per_batch_(std::clamp<Count>(kPicksPerBatch / std::max(query.fanout, 1), 1, kNodesPerBatch)) {}

  void run(Count begin, Count end) {
    for (Count first = begin; first < end; first += nodes_per_batch_) {
      const Count last = std::min(end, first + nodes_per_batch_);
      for (Count i = first; i < last; ++i) locate(range(i), positions_of(i - first));
      for (Count i = first; i < last; ++i) read(range(i), out_.offsets[i], positions_of(i - first));
    }
  }

 private:
  enum class Choice { all, subset, one_by_one };

  const NeighborRange& range(Count i) const { return plan_.ranges[at(i)]; }
  std::uint32_t* positions_of(Count node) {
    return positions_.data() + at(node) * at(std::max(query_.fanout, 0));
  }
  Choice choice_of(const NeighborRange& range) const {
    if (query_.fanout <= 0 || range.choices() <= query_.fanout) return Choice::all;
    return Subset::admits(range.choices(), query_.fanout) ? Choice::subset : Choice::one_by_one;
  }
  std::uint64_t key_of(const NeighborRange& range) const {
    return node_key(query_.key, RandomUse::sample, query_.hop, range.original_id, range.relation);
  }

  void locate(const NeighborRange& range, std::uint32_t* positions) {
    switch (choice_of(range)) {
      case Choice::all:
        prefetch_run(lists_.indices + range.begin, picks_of(range));
        return;
      case Choice::subset:
        choose_subset({range.choices(), query_.fanout, key_of(range)}, query_.fanout, positions);
        for (int j = 0; j < query_.fanout; ++j) prefetch(lists_.indices + range.begin + positions[j]);
        if (out_.edge_ids == nullptr) return;
        for (int j = 0; j < query_.fanout; ++j) prefetch(lists_.edge_ids + range.begin + positions[j]);
        return;
      case Choice::one_by_one:
        return;
    }
  }

  void read(const NeighborRange& range, Count pick, const std::uint32_t* positions) const {
    const ExcludedOfList excluded = excluded_of(query_, range);
    const auto entry_of = [&](Count choice) { return range.begin + excluded.place_of(choice); };
    switch (choice_of(range)) {
      case Choice::all:
        for (Count j = 0; j < picks_of(range); ++j) take(pick + j, entry_of(j));
        return;
      case Choice::subset:
        for (int j = 0; j < query_.fanout; ++j) take(pick + j, entry_of(positions[j]));
        return;
      case Choice::one_by_one: {
        const Shuffle shuffle(static_cast<std::uint64_t>(range.choices()), key_of(range));
        for (int j = 0; j < query_.fanout; ++j) {
          take(pick + j, entry_of(static_cast<Count>(shuffle(static_cast<std::uint64_t>(j)))));
        }
        return;
      }
    }
  }

  /// The number of picks of a node that has no choice.
  Count picks_of(const NeighborRange& range) const { return query_.fanout == 0 ? 0 : range.choices(); }

  void take(Count pick, Count edge) const {
    out_.neighbors[pick] = static_cast<Id>(lists_.indices[edge]);
    if (out_.edge_ids != nullptr) out_.edge_ids[pick] = lists_.edge_ids[edge];
  }

  TypedLists<In, Edge> lists_;
  const PickQuery& query_;
  const PickPlan& plan_;
  PickOutput<Id> out_;
  Count nodes_per_batch_;
  std::array<std::uint32_t, kPicksPerBatch> positions_;
};

template <typename Id>
class UniformChooser final : public PickChooser<Id> {
 public:
  UniformChooser(const store::GraphView& view, ThreadPool& pool) : view_(view), pool_(pool) {}

  void measure(const PickQuery& query, PickPlan& plan, Count* counts) override {
    const auto size = query.nodes.size();
    if (plan.ranges.size() < size) plan.ranges.resize(size);
    pool_.parallel_for(static_cast<Count>(size), kNodesPerPiece, [&](Count begin, Count end) {
      ExcludedCount excluded(query);
      for (Count i = begin; i < end; ++i) {
        if (i + kPrefetchAhead < end) prefetch_node(query.nodes[at(i + kPrefetchAhead)]);
        const NeighborRange range = keyed_range(query.nodes[at(i)], query.fanout, excluded);
        plan.ranges[at(i)] = range;
        counts[i] = query.fanout < 0 ? range.choices() : std::min<Count>(range.choices(), query.fanout);
      }
    });
  }

  void choose(const PickQuery& query, const PickPlan& plan, const PickOutput<Id>& out) override {
    view_.indices.visit([&](const auto* indices) {
      view_.edge_ids.visit([&](const auto* edge_ids) {
        using In = std::remove_cvref_t<decltype(*indices)>;
        using Edge = std::remove_cvref_t<decltype(*edge_ids)>;
        const TypedLists<In, Edge> lists{indices, edge_ids};
        pool_.parallel_for(static_cast<Count>(query.nodes.size()), kNodesPerPiece,
                           [&](Count begin, Count end) {
                             PieceChooser<Id, In, Edge>(lists, query, plan, out).run(begin, end);
                           });
      });
    });
  }

 private:
  void prefetch_node(NodeId node) const {
    if (!view_.owns(node)) return;
    prefetch(view_.indptr + (node - view_.first_node));
    if (view_.keys.nodes != nullptr) return;
    view_.original_ids.visit([&](const auto* ids) { prefetch(ids + node); });
  }

  NeighborRange keyed_range(NodeId list, int fanout, ExcludedCount& excluded) const {
    NeighborRange range = range_of(view_, list, excluded);
    if (fanout >= 0 && range.choices() > fanout) set_key(view_, list, range);
    return range;
  }

  const store::GraphView& view_;
  ThreadPool& pool_;
};

}  // namespace

void append_uniform_picks(Count degree, int fanout, std::uint64_t key, std::vector<Count>& positions) {
  if (Subset::admits(degree, fanout)) {
    std::array<std::uint32_t, Subset::kMaxCount> subset;
    choose_subset({degree, fanout, key}, fanout, subset.data());
    positions.insert(positions.end(), subset.begin(), subset.begin() + fanout);
    return;
  }
  const Shuffle shuffle(static_cast<std::uint64_t>(degree), key);
  for (int j = 0; j < fanout; ++j)
    positions.push_back(static_cast<Count>(shuffle(static_cast<std::uint64_t>(j))));
}

template <typename Id>
std::unique_ptr<PickChooser<Id>> make_uniform_chooser(const store::GraphView& view, ThreadPool& pool) {
  return std::make_unique<UniformChooser<Id>>(view, pool);
}
template std::unique_ptr<PickChooser<std::int32_t>> make_uniform_chooser(const store::GraphView&,
                                                                         ThreadPool&);
template std::unique_ptr<PickChooser<std::int64_t>> make_uniform_chooser(const store::GraphView&,
                                                                         ThreadPool&);

}  // namespace strata::sampling
