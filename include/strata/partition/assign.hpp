// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "strata/graph/graph.hpp"
#include "strata/partition/compact_graph.hpp"
#include "strata/partition/stop.hpp"
#include "strata/util/enum_names.hpp"
#include "strata/util/thread_pool.hpp"

namespace strata::partition {

enum class PartitionMethod {
  automatic,   ///< multilevel; on small graphs METIS as well, refined, and the better one of the two
  multilevel,  ///< clusters are contracted until METIS can take the rest; every level is refined
  metis,       ///< METIS k-way
  random,      ///< a keyed permutation cut into equal pieces
  range,       ///< runs of equal length of the original ids
  file,        ///< one part id per line, as gpmetis writes it
  merge,       ///< joins given parts, whole parts only
  split,       ///< cuts every given part into as many
};

/// The effort of `automatic` and `multilevel` for fewer cut edges.
enum class CutQuality { standard, strong };

/// The device that clusters and refines large levels of `automatic`, `multilevel` and `split`; same parts.
enum class CutDevice { cpu, cuda };

/// The quantities that methods with few cut edges balance: inner nodes, their in-edges, training nodes, and
/// each kind of weights that the input gives its nodes.
enum class Constraint { nodes, edges, train, weights };

}  // namespace strata::partition

namespace strata {

template <>
inline constexpr auto enum_names<partition::PartitionMethod> =
    std::to_array<EnumName<partition::PartitionMethod>>({{partition::PartitionMethod::automatic, "auto"},
                                                         {partition::PartitionMethod::multilevel,
                                                          "multilevel"},
                                                         {partition::PartitionMethod::metis, "metis"},
                                                         {partition::PartitionMethod::random, "random"},
                                                         {partition::PartitionMethod::range, "range"},
                                                         {partition::PartitionMethod::file, "file"},
                                                         {partition::PartitionMethod::merge, "merge"},
                                                         {partition::PartitionMethod::split, "split"}});

template <>
inline constexpr auto enum_names<partition::CutQuality> = std::to_array<EnumName<partition::CutQuality>>(
    {{partition::CutQuality::standard, "default"}, {partition::CutQuality::strong, "strong"}});

template <>
inline constexpr auto enum_names<partition::CutDevice> = std::to_array<EnumName<partition::CutDevice>>(
    {{partition::CutDevice::cpu, "cpu"}, {partition::CutDevice::cuda, "cuda"}});

template <>
inline constexpr auto enum_names<partition::Constraint> =
    std::to_array<EnumName<partition::Constraint>>({{partition::Constraint::nodes, "nodes"},
                                                    {partition::Constraint::edges, "edges"},
                                                    {partition::Constraint::train, "train"},
                                                    {partition::Constraint::weights, "weights"}});

}  // namespace strata

namespace strata::partition {

/// Parts that a graph has already.
struct GivenParts {
  int count = 0;
  std::vector<std::int32_t> of_node{};  ///< by original id
};

/// Reads the part of each node from a partition directory. Throws InputError, IoError.
GivenParts read_given_parts(const std::filesystem::path& directory);

struct AssignOptions {
  int num_parts = 1;
  PartitionMethod method = PartitionMethod::automatic;
  CutQuality quality = CutQuality::standard;
  CutDevice device = CutDevice::cpu;
  std::filesystem::path file{};                        ///< of PartitionMethod::file
  std::shared_ptr<const GivenParts> given{};           ///< of PartitionMethod::merge and split
  std::vector<Constraint> balance{Constraint::nodes};  ///< of the methods that look for few cut edges
  int clusters = 0;         ///< 2 or more: cut_clusters() cuts every part into as many
  double imbalance = 0.03;  ///< in each constraint a part may be this share above the mean
  std::uint64_t seed = 0;
  const StopFlag* stop = nullptr;  ///< asked between the levels of a graph, if there is one
};

/// Whether the method balances what it is asked to, and cuts few edges.
inline bool looks_for_few_cut_edges(PartitionMethod method) {
  return method == PartitionMethod::automatic || method == PartitionMethod::multilevel ||
         method == PartitionMethod::metis || method == PartitionMethod::merge ||
         method == PartitionMethod::split;
}

/// Throws InputError if merge or split get a number of parts that does not divide the given one, or is no
/// multiple of it.
void check_regrouping(const AssignOptions& options);

/// Throws InputError if there is no such file to take parts from.
void check_parts_file(const std::filesystem::path& file);

/// Throws InputError if `num_nodes` are too few for the parts and their clusters.
void check_num_nodes(Count num_nodes, const AssignOptions& options);

/// Throws InputError if weights are to be balanced, but nodes have none.
void check_node_weights(int kinds, const AssignOptions& options);

/// Throws InputError if the device is not there, or the program was built without it.
void check_device(const AssignOptions& options);

/// The name of a constraint; with several kinds of weights it has a number: "weights 2" is kind 1.
std::string name_of(Constraint constraint, const CompactGraph& graph, int kind);

/// Numbers per node that a constraint balances, each by itself: 1, or the kinds of weights of nodes.
int kinds_of(Constraint constraint, const CompactGraph& graph);

/// The weight of each node under a constraint. REQUIRES: kind < kinds_of(constraint, graph).
std::vector<std::int32_t> weights_of(Constraint constraint, const CompactGraph& graph,
                                     const std::vector<NodeId>& train, int kind = 0);

/// The part of every node, in [0, num_parts). Parts may be empty only if they come from a file or METIS.
/// The same for every number of threads and every device.
///
/// Throws InputError if there are more parts than nodes, one of the checks above does, the file
/// does not match the graph, or the graph exceeds METIS's integers; OutOfMemory; CudaError.
std::vector<std::int32_t> assign_parts(const CompactGraph& graph, const std::vector<NodeId>& train,
                                       const AssignOptions& options, ThreadPool& pool);

/// The cluster of every node within its part, in [0, options.clusters): nodes of a cluster share many
/// neighbors, clusters of a part are of about the same size, and those with near numbers tend to be near each
/// other. The same for every number of threads.
///
/// Throws InputError if there are more clusters than nodes, and as assign_parts(); OutOfMemory.
std::vector<std::int32_t> cut_clusters(const CompactGraph& graph, const std::vector<std::int32_t>& part_of,
                                       const AssignOptions& options, ThreadPool& pool);

/// Moves nodes out of parts that exceed their limit of a constraint, into parts with room for all of the
/// node's weights. Nodes whose move cuts the fewest further edges go first. Returns the number of moves.
///
/// weights[c][node]; limits[c] is the most that a part may weigh. Stops when all parts fit or no node can be
/// moved.
Count rebalance(const CompactGraph& graph, const std::vector<std::vector<std::int32_t>>& weights,
                const std::vector<Count>& limits, int num_parts, std::vector<std::int32_t>& part_of);

}  // namespace strata::partition
