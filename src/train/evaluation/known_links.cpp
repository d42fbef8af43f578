// SPDX-License-Identifier: Apache-2.0
#include "evaluation/known_links.hpp"

#include <algorithm>
#include <utility>

namespace strata::train {

KnownLinks::KnownLinks(std::span<const Link> links, Count num_relations, bool undirected)
    : num_relations_(num_relations),
      lists_{lists_of(links, nn::Side::head, undirected), lists_of(links, nn::Side::tail, undirected)} {}

KnownLinks::Lists KnownLinks::lists_of(std::span<const Link> links, nn::Side side, bool undirected) const {
  std::vector<std::pair<std::int64_t, NodeId>> entries;
  for (const Link& link : links) {
    const auto add = [&](NodeId known, NodeId other) {
      entries.emplace_back(known * num_relations_ + link.relation, other);
    };
    const bool to_tails = side == nn::Side::tail;
    if (to_tails || undirected) add(link.source, link.destination);
    if (!to_tails || undirected) add(link.destination, link.source);
  }
  std::ranges::sort(entries);
  Lists lists;
  for (const auto& [key, other] : entries) {
    if (lists.keys.empty() || lists.keys.back() != key) {
      lists.keys.push_back(key);
      lists.ends.push_back(std::ssize(lists.others));
    }
    lists.others.push_back(other);
  }
  lists.ends.push_back(std::ssize(lists.others));
  return lists;
}

std::span<const NodeId> KnownLinks::of(nn::Side side, NodeId node, Count relation) const {
  const Lists& lists = lists_[static_cast<std::size_t>(side)];
  const std::int64_t key = node * num_relations_ + relation;
  const auto found = std::ranges::lower_bound(lists.keys, key);
  if (found == lists.keys.end() || *found != key) return {};
  const Count* const ends = lists.ends.data() + (found - lists.keys.begin());
  return std::span(lists.others).subspan(at(ends[0]), at(ends[1] - ends[0]));
}

}  // namespace strata::train
