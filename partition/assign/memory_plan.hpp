// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "strata/graph/stored_graph.hpp"
#include "strata/partition/build.hpp"

namespace strata::partition {

struct MemoryOptions {
  std::int64_t limit_bytes = 0;  ///< the most that may be resident; 0: what is free
  bool both_directions = false;  ///< whether edges are added in the other direction, or may be
};

/// The memory that work on a graph takes.
struct MemoryUse {
  std::string what;                        ///< "the cut": the subject of messages
  std::int64_t bytes_per_node = 0;         ///< that work takes where the edges are on disk
  std::int64_t bytes_per_node_weight = 0;  ///< the same for each kind of weights of nodes
  /// Entries of the lists that METIS takes at once, of a graph in memory that has as many.
  Count metis_entries = 0;
  bool whole_graph = false;  ///< only METIS cuts it: edges cannot be on disk
};
MemoryUse memory_of_cut(const AssignOptions& assign);
MemoryUse memory_of_summary();     ///< summarize() of a graph
MemoryUse memory_of_conversion();  ///< write_npy_folder()

/// The way in which a graph is read and used.
struct MemoryPlan {
  bool on_disk = false;             ///< edges lie in scratch files
  std::int64_t limit_bytes = 0;     ///< that may be resident
  std::int64_t capacity_bytes = 0;  ///< for the ScratchStore, if `on_disk`
};

/// Decides whether the edges of an input stay in memory. Estimates are upper bounds; sizes that the input
/// does not state count nothing here, see room_for_nodes().
///
/// Throws OutOfMemory with the need and its reason if there is a limit that neither way can keep.
MemoryPlan plan_memory(const graph::InputSize& input, const MemoryUse& use, const MemoryOptions& options);

/// Whether a graph that is read as planned stays within the limit, now that its number of nodes is known.
/// Throws OutOfMemory as room_for_nodes() if it lies on disk and there is too little room.
bool holds(const MemoryPlan& plan, const graph::InputSize& input, const MemoryUse& use,
           const MemoryOptions& options);

/// Memory that the limit leaves beside what grows with the nodes, for graphs on disk. Throws OutOfMemory with
/// the need and its reason if too little is left.
std::int64_t room_for_nodes(const graph::InputSize& input, const MemoryUse& use, std::int64_t limit_bytes);

/// The number of threads, of `num_threads` (0: all cores), that may work on a graph on disk: each holds
/// pieces of the edges, and the allocator keeps some of what they freed.
int threads_within(std::int64_t capacity_bytes, int num_threads);

}  // namespace strata::partition
