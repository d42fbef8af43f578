// SPDX-License-Identifier: Apache-2.0
#include "choosers/sublists.hpp"

#include <algorithm>

#include "strata/util/error.hpp"

namespace strata::sampling {
namespace {

FanoutGroups groups_of(const std::vector<int>& fanouts) {
  FanoutGroups groups;
  for (const int fanout : fanouts) {
    if (fanout == 0) {
      groups.of.push_back(FanoutGroups::kNone);
      continue;
    }
    const auto found = std::ranges::find(groups.fanouts, fanout);
    if (found == groups.fanouts.end() && groups.fanouts.size() == FanoutGroups::kNone)
      throw InputError("the relations have more than 255 different fanouts at a hop",
                       "Give relations of a kind the same fanout.");
    groups.of.push_back(static_cast<std::uint8_t>(found - groups.fanouts.begin()));
    if (found == groups.fanouts.end()) groups.fanouts.push_back(fanout);
  }
  return groups;
}

}  // namespace

std::vector<FanoutGroups> fanout_groups(const SamplerOptions& options, int num_relations) {
  std::vector<FanoutGroups> groups;
  for (std::size_t hop = 0; hop < options.fanouts.size(); ++hop) {
    if (options.relation_fanouts.empty())
      groups.push_back(groups_of(std::vector<int>(at(num_relations), options.fanouts[hop])));
    else
      groups.push_back(groups_of(options.relation_fanouts[hop]));
  }
  return groups;
}

std::size_t most_groups(const std::vector<FanoutGroups>& hops) {
  std::size_t most = 0;
  for (const FanoutGroups& hop : hops) most = std::max(most, hop.fanouts.size());
  return most;
}

store::GraphView view_of_sublists(const store::GraphView& view, const std::uint8_t* groups,
                                  std::size_t group) {
  const store::SublistsView& sublists = view.sublists;
  store::GraphView lists = view;
  lists.keys = {.nodes = sublists.nodes,
                .relations = sublists.relations,
                .first_node = view.first_node - sublists.lists_before,
                .groups = groups,
                .group = static_cast<std::uint8_t>(group)};
  lists.first_node = 0;
  lists.num_local = sublists.count;
  lists.indptr = sublists.begins;
  lists.copies = {};
  lists.sublists = {};
  return lists;
}

}  // namespace strata::sampling
