// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "choosers/pick_chooser.hpp"
#include "choosers/sublists.hpp"
#include "compaction/scan_cpu.hpp"

namespace strata::sampling {
namespace {

template <typename Id>
class SublistChooser final : public PickChooser<Id> {
 public:
  SublistChooser(const store::GraphView& view, const SamplerOptions& options, ThreadPool& pool)
      : view_(view), hops_(fanout_groups(options, view.sublists.num_relations)), pool_(pool) {
    const std::size_t groups = most_groups(hops_);
    views_.reserve(groups);
    for (std::size_t group = 0; group < groups; ++group) {
      views_.push_back(view_of_sublists(view, nullptr, group));
      choosers_.push_back(make_pick_chooser<Id>(views_.back(), options, pool));
    }
  }

  void measure(const PickQuery& query, PickPlan& plan, Count* counts) override {
    list(query, plan);
    const auto size = plan.lists.size();
    plan.list_counts.assign(size, 0);
    plan.groups.resize(std::max(plan.groups.size(), groups_of(query).fanouts.size()));
    for (std::size_t group = 0; group < groups_of(query).fanouts.size(); ++group) {
      group_counts_.resize(size);
      chooser_of(group, query)
          .measure(query_of(group, query, plan), plan.groups[group], group_counts_.data());
      std::ranges::transform(plan.list_counts, group_counts_, plan.list_counts.begin(), std::plus());
    }
    pool_.parallel_for(std::ssize(query.nodes), kNodesPerPiece, [&](Count begin, Count end) {
      const Count* const of_lists = plan.list_counts.data();
      for (Count i = begin; i < end; ++i)
        counts[i] = std::accumulate(of_lists + plan.first_list[at(i)], of_lists + plan.first_list[at(i) + 1],
                                    Count{0});
    });
  }

  void choose(const PickQuery& query, const PickPlan& plan, const PickOutput<Id>& out) override {
    offsets_.resize(plan.lists.size() + 1);
    offsets_.back() = out.offsets[query.nodes.size()];
    pool_.parallel_for(std::ssize(query.nodes), kNodesPerPiece, [&](Count begin, Count end) {
      for (Count i = begin; i < end; ++i) {
        Count offset = out.offsets[i];
        for (auto list = at(plan.first_list[at(i)]); list < at(plan.first_list[at(i) + 1]); ++list) {
          offsets_[list] = offset;
          offset += plan.list_counts[list];
        }
      }
    });
    const PickOutput<Id> of_lists{offsets_.data(), out.neighbors, out.edge_ids};
    for (std::size_t group = 0; group < groups_of(query).fanouts.size(); ++group)
      chooser_of(group, query).choose(query_of(group, query, plan), plan.groups[group], of_lists);
  }

 private:
  static constexpr Count kNodesPerPiece = 2048;

  const FanoutGroups& groups_of(const PickQuery& query) const { return hops_[at(Count{query.hop})]; }

  PickQuery query_of(std::size_t group, const PickQuery& query, const PickPlan& plan) const {
    return {plan.lists, groups_of(query).fanouts[group], query.key, query.hop, query.excluded};
  }

  PickChooser<Id>& chooser_of(std::size_t group, const PickQuery& query) {
    views_[group].keys.groups = groups_of(query).of.data();
    return *choosers_[group];
  }

  /// Lists the sublists of the query's nodes. A node of another machine has an entry, so that its picks lie
  /// between those of the others.
  void list(const PickQuery& query, PickPlan& plan) const {
    const auto size = std::ssize(query.nodes);
    plan.first_list.assign(at(size) + 1, 0);
    pool_.parallel_for(size, kNodesPerPiece, [&](Count begin, Count end) {
      for (Count i = begin; i < end; ++i) plan.first_list[at(i)] = sublists_of(query.nodes[at(i)]).count;
    });
    plan.lists.resize(at(exclusive_scan(plan.first_list.data(), size, pool_)));
    pool_.parallel_for(size, kNodesPerPiece, [&](Count begin, Count end) {
      for (Count i = begin; i < end; ++i) {
        const Run run = sublists_of(query.nodes[at(i)]);
        std::iota(plan.lists.begin() + plan.first_list[at(i)],
                  plan.lists.begin() + plan.first_list[at(i) + 1], run.first);
      }
    });
  }

  struct Run {
    NodeId first = -1;
    Count count = 1;
  };
  Run sublists_of(NodeId node) const {
    if (!view_.owns(node)) return {};
    const Count* const first = view_.sublists.first + (node - view_.first_node);
    return {first[0], first[1] - first[0]};
  }

  const store::GraphView& view_;
  std::vector<FanoutGroups> hops_;
  ThreadPool& pool_;
  std::vector<store::GraphView> views_;  // by group, as are the choosers, which refer to them
  std::vector<std::unique_ptr<PickChooser<Id>>> choosers_;
  std::vector<Count> group_counts_, offsets_;
};

}  // namespace

template <typename Id>
std::unique_ptr<PickChooser<Id>> make_sublist_chooser(const store::GraphView& view,
                                                      const SamplerOptions& options, ThreadPool& pool) {
  return std::make_unique<SublistChooser<Id>>(view, options, pool);
}
template std::unique_ptr<PickChooser<std::int32_t>> make_sublist_chooser(const store::GraphView&,
                                                                         const SamplerOptions&, ThreadPool&);
template std::unique_ptr<PickChooser<std::int64_t>> make_sublist_chooser(const store::GraphView&,
                                                                         const SamplerOptions&, ThreadPool&);

}  // namespace strata::sampling
