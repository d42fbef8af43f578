// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "strata/graph/graph.hpp"
#include "strata/partition/compact_graph.hpp"
#include "strata/util/thread_pool.hpp"

namespace strata::partition {

enum class PartitionMethod {
  metis,   ///< METIS k-way, few cut edges
  random,  ///< a keyed permutation cut into equal pieces
  range,   ///< runs of equal length of the original ids
  file,    ///< one part id a line, as gpmetis writes
};

/// What METIS balances: inner nodes, their in-edges, training nodes.
enum class Constraint { nodes, edges, train };

struct AssignOptions {
  int num_parts = 1;
  PartitionMethod method = PartitionMethod::metis;
  std::filesystem::path file{};                        ///< of PartitionMethod::file
  std::vector<Constraint> balance{Constraint::nodes};  ///< of PartitionMethod::metis
  double imbalance = 0.03;  ///< each constraint: a part may be this much above the mean
  std::uint64_t seed = 0;
};

std::string name_of(PartitionMethod method);
std::string name_of(Constraint constraint);

/// A node's weight under a constraint is weights[node].
std::vector<std::int32_t> weights_of(Constraint constraint, const CompactGraph& graph,
                                     const std::vector<NodeId>& train);

/// The part of every node, in [0, num_parts). Parts may be empty if a file or METIS says so.
///
/// Throws InputError: more parts than nodes, a file that does not fit, a graph beyond METIS's integers;
/// OutOfMemory.
std::vector<std::int32_t> assign_parts(const CompactGraph& graph, const std::vector<NodeId>& train,
                                       const AssignOptions& options, ThreadPool& pool);

/// Moves nodes out of parts that exceed their share of a constraint, into parts with room for all of the
/// node's weights, those first that cut the fewest further edges. Returns the number of moves.
///
/// weights[c][node]; limits[c]: most that a part may weigh. Stops when all fit or no node can be moved.
Count rebalance(const CompactGraph& graph, const std::vector<std::vector<std::int32_t>>& weights,
                const std::vector<Count>& limits, int num_parts, std::vector<std::int32_t>& part_of);

}  // namespace strata::partition
