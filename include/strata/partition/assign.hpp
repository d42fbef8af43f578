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
  file,    ///< one part id per line, as gpmetis writes it
};

/// What METIS balances: inner nodes, their in-edges, training nodes.
enum class Constraint { nodes, edges, train };

struct AssignOptions {
  int num_parts = 1;
  PartitionMethod method = PartitionMethod::metis;
  std::filesystem::path file{};                        ///< of PartitionMethod::file
  std::vector<Constraint> balance{Constraint::nodes};  ///< of PartitionMethod::metis
  double imbalance = 0.03;  ///< in each constraint a part may be this share above the mean
  std::uint64_t seed = 0;
};

std::string name_of(PartitionMethod method);
std::string name_of(Constraint constraint);

/// The weight of each node under a constraint.
std::vector<std::int32_t> weights_of(Constraint constraint, const CompactGraph& graph,
                                     const std::vector<NodeId>& train);

/// The part of every node, in [0, num_parts). Parts may be empty if a file or METIS says so.
///
/// Throws InputError if there are more parts than nodes, the file does not match the graph, or the graph
/// exceeds METIS's integers; OutOfMemory.
std::vector<std::int32_t> assign_parts(const CompactGraph& graph, const std::vector<NodeId>& train,
                                       const AssignOptions& options, ThreadPool& pool);

/// Moves nodes out of parts that exceed their limit of a constraint, into parts with room for all of the
/// node's weights. Nodes whose move cuts the fewest further edges go first. Returns the number of moves.
///
/// weights[c][node]; limits[c] is the most that a part may weigh. Stops when all parts fit or no node can be
/// moved.
Count rebalance(const CompactGraph& graph, const std::vector<std::vector<std::int32_t>>& weights,
                const std::vector<Count>& limits, int num_parts, std::vector<std::int32_t>& part_of);

}  // namespace strata::partition
