// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "strata/sampling/sampler.hpp"
#include "strata/store/graph_view.hpp"

/// Graphs of several relations: a node's neighbors are chosen from one sublist after the other, and a chooser
/// takes sublists for the lists of nodes.
namespace strata::sampling {

/// Relations with the same fanout at a hop, so that one call chooses for all of them.
struct FanoutGroups {
  std::vector<int> fanouts;      ///< of each group; none is 0
  std::vector<std::uint8_t> of;  ///< [relations] the group, or kNone: fanout 0

  static constexpr std::uint8_t kNone = 255;
};

/// The groups of each hop. Throws InputError for more than 255 different fanouts of a hop.
std::vector<FanoutGroups> fanout_groups(const SamplerOptions& options, int num_relations);

/// The most groups of a hop.
std::size_t most_groups(const std::vector<FanoutGroups>& hops);

/// The view whose lists are the sublists of `view`, those of one group alone. `groups` [relations] lies where
/// the view's device reads it.
store::GraphView view_of_sublists(const store::GraphView& view, const std::uint8_t* groups,
                                  std::size_t group);

}  // namespace strata::sampling
