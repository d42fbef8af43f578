// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "strata/graph/graph.hpp"
#include "strata/graph/manifest_file.hpp"
#include "strata/graph/stored_graph.hpp"
#include "strata/util/error.hpp"
#include "strata/util/scratch.hpp"
#include "strata/util/text.hpp"
#include "strata/util/threads.hpp"
#include "strata/util/types.hpp"

namespace strata::partition {

/// Thrown when a build was asked to end; what it wrote so far is removed.
class Stopped : public Error {
  using Error::Error;
};

/// Carries the request to end a build from the thread that takes signals to the build.
class StopFlag {
 public:
  void request() noexcept { requested_ = true; }
  /// Throws Stopped if a stop was requested.
  void check() const {
    if (requested_) throw Stopped("stopped by a signal; nothing was written");
  }
  /// Whether there are files that a stopped build must remove first.
  bool cleanup_needed() const noexcept { return cleanup_needed_; }
  void set_cleanup_needed(bool needed) noexcept { cleanup_needed_ = needed; }

 private:
  std::atomic<bool> requested_{false}, cleanup_needed_{false};
};

/// Ids with 32 bits if all of them fit, else with 64. An owner.
class IdArray {
 public:
  IdArray() = default;
  explicit IdArray(std::vector<std::int32_t> ids) : ids_{std::move(ids)} {}
  explicit IdArray(std::vector<std::int64_t> ids) : ids_{std::move(ids)} {}
  /// Ids that lie elsewhere; `memory` keeps them valid.
  IdArray(IdSpan ids, std::shared_ptr<const void> memory) : ids_{Stored{ids, std::move(memory)}} {}

  IdSpan span() const {
    return std::visit(
        []<typename Ids>(const Ids& v) {
          if constexpr (std::is_same_v<Ids, Stored>)
            return v.ids;
          else
            return IdSpan{v.data(), static_cast<Count>(v.size()), sizeof(v[0]) == sizeof(std::int64_t)};
        },
        ids_);
  }
  Count size() const { return span().size; }

 private:
  struct Stored {
    IdSpan ids;
    std::shared_ptr<const void> memory;
  };
  std::variant<std::vector<std::int32_t>, std::vector<std::int64_t>, Stored> ids_;
};

/// A checked CscGraph in half the memory, or with its lists in scratch files. Ids are original ids.
struct CompactGraph {
  Count num_nodes = 0;
  std::vector<Count> indptr;                ///< [num_nodes + 1]
  IdArray indices;                          ///< [num_edges], each list ascending over a relation
  IdArray edge_ids;                         ///< [num_edges], or empty: entry e of `indices` is edge e
  std::vector<float> own_weights = {};      ///< [num_edges], or empty: none
  ScratchArray<float> stored_weights = {};  ///< instead, with `scratch`
  ScratchStore* scratch = nullptr;          ///< of the lists; null: they are in memory
  graph::NodeWeights node_weights = {};
  graph::GraphTypes types = {};

  Count num_edges() const { return indptr.back(); }
  std::span<const float> weights() const {
    return scratch != nullptr ? std::span<const float>(stored_weights.span()) : own_weights;
  }
  void release_pages() const {
    if (scratch != nullptr) scratch->trim();
  }
  Count in_degree(NodeId v) const { return indptr[at(v) + 1] - indptr[at(v)]; }
};

/// Consumes `graph`, freeing its arrays as they are converted. Throws InputError for lengths that do not
/// match, ids out of range or not of the relation's types, lists that are not in order, and weights that are
/// negative or not finite.
CompactGraph compact(graph::CscGraph graph, ThreadPool& pool, graph::GraphTypes types = {});

/// The same for lists in scratch files, which were checked when they were made.
CompactGraph compact(graph::StoredLists lists, ScratchStore& scratch);

/// The heat of each node: how often it occurs in `indices`.
std::vector<Count> occurrences(const CompactGraph& graph, ThreadPool& pool);

/// Whether, for all pairs, u is among the in-neighbors of v as often as v among those of u. Compares two sums
/// of hashes.
bool is_symmetric(const CompactGraph& graph, ThreadPool& pool);

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

/// The quantities that methods with few cut edges balance: inner nodes, their in-edges, training nodes, each
/// kind of weights that the input gives its nodes, and the nodes of each type.
enum class Constraint { nodes, edges, train, weights, types };

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
                                                    {partition::Constraint::weights, "weights"},
                                                    {partition::Constraint::types, "types"}});

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

/// Throws InputError if types are to be balanced, but there is one or there are too many.
void check_types(const graph::GraphTypes& types, const AssignOptions& options);

/// Throws InputError if the device is not there, or the program was built without it.
void check_device(const AssignOptions& options);

/// The name of a constraint. That of a type has its name, "type paper"; with several kinds of weights it has
/// a number: "weights 2" is kind 1.
std::string name_of(Constraint constraint, const CompactGraph& graph, int kind);

/// Numbers per node that a constraint balances, each by itself: 1, or the kinds of weights or the types of
/// nodes.
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

struct BuildOptions {
  std::filesystem::path output;
  AssignOptions assign{};
  DType feature_dtype = DType::f32;  ///< f32, f16 or bf16; without effect where there is a code
  bool force = false;                ///< replace an existing partition directory
  /// More are refused, because one wrong label would make a model with that many outputs.
  Count max_classes = 100'000;
  int num_threads = 0;  ///< 0: all cores of this process
  std::string input{};  ///< as the user named it; for the manifest
  /// Called after everything is written and before it appears: an exception from it ends the build.
  std::function<void()> before_publishing{};
  bool detailed = false;  ///< count what only pages about a partition show, too
  /// Compressed features: the kind, and the codebooks of vq if they are given. The build trains those that
  /// are missing on a sample of rows that depends on AssignOptions::seed.
  RowCode feature_code{};
  /// See graph::types_to_replicate(). InputError if it is set for a graph of one type.
  std::optional<Count> replicate_below{};
};

/// The cost of one phase of a build.
struct Phase {
  std::string name;
  double seconds = 0;
  double cpu_seconds = 0;       ///< of all threads
  std::int64_t peak_bytes = 0;  ///< peak resident memory of the process until the phase ended
};

/// Measures consecutive phases.
class PhaseClock {
 public:
  /// Ends the phase that began when the clock was made or end() was last called.
  Phase end(std::string name);

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::clock_t cpu_start_ = std::clock();
};

struct BuildReport {
  graph::PartitionRecord record;
  std::vector<Phase> phases;
  /// Edges by [part of the destination][part of the source] if detailed, for at most kMostPartsBetween parts.
  std::vector<Count> edges_between{};
  /// Nodes without in-neighbors, then those with [2^i, 2^(i + 1)) for each i, if detailed.
  std::vector<Count> degree_histogram{};

  static constexpr int kMostPartsBetween = 1024;
};

/// The file for the names of nodes that are not named by their numbers: "parts.ids.txt".
std::filesystem::path names_file(const std::filesystem::path& output);

/// Throws InputError for errors that show before anything is read: an output that exists, a parent folder
/// that cannot be written, a device that is not there.
void check_output(const BuildOptions& options);

/// Throws InputError if the names of nodes would replace a file without options.force, or something else.
void check_names_file(const BuildOptions& options);

/// Partitions `graph` and publishes options.output atomically: the folder holds a whole partition, or what it
/// held before.
///
/// Consumes the graph piece by piece. Throws InputError, IoError, OutOfMemory or Stopped, and leaves nothing
/// behind then.
BuildReport build(graph::Graph graph, const BuildOptions& options, StopFlag& stop);

/// The same for a graph that has its edges in scratch files, so that no memory grows with the edges. Its
/// parts equal those in memory where these need neither METIS nor the local search on the whole graph.
BuildReport build(graph::StoredGraph graph, const BuildOptions& options, ScratchStore& scratch,
                  StopFlag& stop);

}  // namespace strata::partition
