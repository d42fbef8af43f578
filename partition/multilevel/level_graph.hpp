// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "strata/util/scratch.hpp"
#include "strata/util/threads.hpp"
#include "strata/util/types.hpp"

namespace strata::partition {

/// A graph of one level: every pair of neighbors once in each direction, without self-loops, with weights.
///
/// The finest level may borrow its lists; what they point to must then stay alive. With `scratch` the lists
/// lie in scratch files, and little of them is resident at a time: a scan calls release_pages() between
/// its pieces. Ids have 32 bits, offsets and sums 64. A weight of an edge has 32 bits, which suffice for
/// kMostEntries entries of weight one.
struct LevelGraph {
  static constexpr Count kMostEntries = Count{1} << 33;

  Count num_nodes = 0;
  int num_constraints = 1;
  std::vector<Count> own_begin;
  std::vector<std::int32_t> own_ids;
  std::vector<std::uint32_t> own_edge_weights{};
  const Count* begin = nullptr;                 ///< [num_nodes + 1]
  const std::int32_t* ids = nullptr;            ///< neighbors of v: ids[begin[v] .. begin[v + 1])
  const std::uint32_t* edge_weights = nullptr;  ///< parallel to ids, or null: 1 each
  std::vector<Count> node_weights{};            ///< [num_nodes][num_constraints], or empty: 1 each
  ScratchStore* scratch = nullptr;
  ScratchArray<std::int32_t> stored_ids{};  ///< what `ids` and `edge_weights` point to, of a coarse level
  ScratchArray<std::uint32_t> stored_edge_weights{};

  Count num_entries() const { return begin[num_nodes]; }
  Count degree(Count v) const { return begin[v + 1] - begin[v]; }
  Count edge_weight(Count e) const { return edge_weights == nullptr ? 1 : edge_weights[at(e)]; }
  Count weight(Count v, int constraint) const {
    return node_weights.empty() ? 1 : node_weights[at(v * num_constraints + constraint)];
  }
  void use_own_lists() {
    begin = own_begin.data();
    ids = own_ids.data();
    edge_weights = own_edge_weights.empty() ? nullptr : own_edge_weights.data();
  }
  void release_pages() const {
    if (scratch != nullptr) scratch->trim();
  }
};

/// The weight of all nodes together, by constraint.
std::vector<Count> total_weights(const LevelGraph& graph);
/// The weight of the heaviest node, by constraint.
std::vector<Count> heaviest_nodes(const LevelGraph& graph);

/// The weight of all entries.
Count total_edge_weight(const LevelGraph& graph, ThreadPool& pool);

/// The weight of the edges between parts, each pair of neighbors counted once.
Count cut_of(const LevelGraph& graph, const std::vector<std::int32_t>& part_of, ThreadPool& pool);

}  // namespace strata::partition
