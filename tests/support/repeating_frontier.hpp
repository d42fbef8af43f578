// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "choosers/pick_chooser.hpp"
#include "strata/util/random.hpp"
#include "strata/util/types.hpp"

/// Frontiers with a node more than once, as several ranks' requests to one have them.
namespace strata::test {

/// `count` nodes of few of the graph's: some next to each other, some far apart.
inline std::vector<NodeId> repeating_frontier(Count count, NodeId num_nodes, std::uint64_t seed) {
  std::vector<NodeId> nodes;
  for (Count i = 0; i < count; ++i) {
    const std::uint64_t bits = mix64(seed * 7919 + static_cast<std::uint64_t>(i));
    const auto among = static_cast<std::uint64_t>(std::min<Count>(num_nodes, count / 3 + 1));
    nodes.push_back(i > 0 && bits % 5 == 0 ? nodes.back()
                                           : static_cast<NodeId>(mix64(bits % among + seed) %
                                                                 static_cast<std::uint64_t>(num_nodes)));
  }
  return nodes;
}

/// What a chooser gives one node.
struct ChosenList {
  std::vector<NodeId> neighbors;
  std::vector<EdgeId> edge_ids;
  bool operator==(const ChosenList&) const = default;
};

/// Of each node of the query, by the CPU's chooser.
template <typename Id>
std::vector<ChosenList> chosen_lists(sampling::PickChooser<Id>& chooser, const sampling::PickQuery& query) {
  sampling::PickPlan plan;
  std::vector<Count> offsets(query.nodes.size() + 1);
  chooser.measure(query, plan, offsets.data());
  offsets.back() = 0;
  Count sum = 0;
  for (Count& offset : offsets) sum += std::exchange(offset, sum);
  std::vector<Id> neighbors(at(sum), Id{-7});
  std::vector<EdgeId> edge_ids(neighbors.size(), -7);
  chooser.choose(query, plan, {offsets.data(), neighbors.data(), edge_ids.data()});
  std::vector<ChosenList> lists;
  for (std::size_t i = 0; i < query.nodes.size(); ++i)
    lists.push_back({{neighbors.begin() + offsets[i], neighbors.begin() + offsets[i + 1]},
                     {edge_ids.begin() + offsets[i], edge_ids.begin() + offsets[i + 1]}});
  return lists;
}

}  // namespace strata::test
