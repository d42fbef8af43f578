// SPDX-License-Identifier: Apache-2.0
#include "links/find_entries.hpp"

#include <algorithm>
#include <mutex>
#include <numeric>

namespace strata::batches {
namespace {

/// A neighbor in a list, and where it stands.
using Neighbor = std::pair<NodeId, Count>;

/// Links by the list of their node.
struct LinksByList {
  std::vector<Count> first;  // [lists + 1]
  std::vector<Count> links;

  LinksByList(const SearchedLists& lists, std::span<const NodeId> nodes)
      : first(at(lists.view.num_local) + 1) {
    std::vector<Count> list_of;
    for (const NodeId node : nodes) list_of.push_back(lists.list_of(node));
    for (const Count list : list_of)
      if (list >= 0) ++first[at(list) + 1];
    std::partial_sum(first.begin(), first.end(), first.begin());
    links.resize(at(first.back()));
    std::vector<Count> next(first.begin(), first.end() - 1);
    for (std::size_t link = 0; link < list_of.size(); ++link)
      if (list_of[link] >= 0) links[at(next[at(list_of[link])]++)] = static_cast<Count>(link);
  }
};

class Search {
 public:
  Search(const store::GraphView& view, std::span<const NodeId> neighbors, const LinkEdges& edges)
      : view_(view), neighbors_(neighbors), edges_(edges) {}

  /// Calls found(link, entry) for the entries of one list.
  template <typename Found>
  void run(Count list, std::span<const Count> links, std::vector<Neighbor>& sorted, Found&& found) const {
    constexpr std::size_t kFewLinks = 4;  // for which a list is not worth sorting
    const Count begin = view_.indptr[list], end = view_.indptr[list + 1];
    if (links.size() <= kFewLinks) {
      for (Count entry = begin; entry < end; ++entry) {
        const NodeId neighbor = view_.indices[entry];
        for (const Count link : links)
          if (neighbor == neighbors_[at(link)] && is_of(link, entry)) found(link, entry);
      }
      return;
    }
    sorted.clear();
    for (Count entry = begin; entry < end; ++entry) sorted.emplace_back(view_.indices[entry], entry);
    std::ranges::sort(sorted);
    for (const Count link : links) {
      const auto equal = std::ranges::equal_range(sorted, neighbors_[at(link)], {}, &Neighbor::first);
      for (const auto& [neighbor, entry] : equal)
        if (is_of(link, entry)) found(link, entry);
    }
  }

 private:
  /// Whether an entry between the ends of a link is one of its edges.
  bool is_of(Count link, Count entry) const {
    if (view_.edge_ids.size == 0) return true;
    const EdgeId edge = view_.edge_ids[entry];
    if (!edges_.ids.empty()) return edge == edges_.ids[at(link)];
    return edges_.relation.contains(edge);
  }

  const store::GraphView& view_;
  std::span<const NodeId> neighbors_;
  const LinkEdges& edges_;
};

}  // namespace

LinkEntries::LinkEntries(std::vector<Count> one, std::vector<std::pair<Count, Count>> others)
    : one_(std::move(one)), others_(std::move(others)) {
  std::ranges::sort(others_);
  most_ = std::ranges::any_of(one_, [](Count entry) { return entry >= 0; }) ? 1 : 0;
  for (std::size_t first = 0, i = 0; i < others_.size(); ++i) {
    if (others_[i].first != others_[first].first) first = i;
    most_ = std::max(most_, static_cast<Count>(i - first) + 2);
  }
}

void LinkEntries::append(Count link, std::vector<Count>& entries) const {
  if (!has(link)) return;
  entries.push_back(one_[at(link)]);
  const auto equal = std::ranges::equal_range(others_, link, {}, &std::pair<Count, Count>::first);
  for (const auto& [number, entry] : equal) entries.push_back(entry);
}

LinkEntries find_entries(const SearchedLists& lists, std::span<const NodeId> nodes,
                         std::span<const NodeId> neighbors, const LinkEdges& edges, ThreadPool& pool) {
  constexpr Count kListsPerPiece = 256;
  const LinksByList by_list(lists, nodes);
  const Search search(lists.view, neighbors, edges);
  std::vector<Count> one(nodes.size(), -1);
  std::vector<std::pair<Count, Count>> others;
  std::mutex mutex;  // of others, which are few
  pool.parallel_for(lists.view.num_local, kListsPerPiece, [&](Count begin, Count end) {
    std::vector<Neighbor> sorted;
    for (Count list = begin; list < end; ++list) {
      const std::span of_list(by_list.links.data() + by_list.first[at(list)],
                              by_list.links.data() + by_list.first[at(list) + 1]);
      if (of_list.empty()) continue;
      search.run(list, of_list, sorted, [&](Count link, Count entry) {
        if (one[at(link)] < 0) {
          one[at(link)] = entry;
          return;
        }
        const std::lock_guard lock(mutex);
        others.emplace_back(link, entry);
      });
    }
  });
  return {std::move(one), std::move(others)};
}

}  // namespace strata::batches
