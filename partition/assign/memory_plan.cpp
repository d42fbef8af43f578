// SPDX-License-Identifier: Apache-2.0
#include "assign/memory_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "multilevel/multilevel.hpp"
#include "strata/util/error.hpp"
#include "strata/util/system.hpp"
#include "strata/util/text.hpp"
#include "strata/util/threads.hpp"

namespace strata::partition {
namespace {

constexpr std::int64_t kProgramBytes = std::int64_t{32} << 20;  // the program, its stacks and small buffers
constexpr std::int64_t kLeastRoomBytes = std::int64_t{32} << 20;
constexpr std::int64_t kShareOfSlack = 16;  // of a limit: for what the allocator keeps in small blocks
constexpr double kShareOfFree = 0.9;

// Measured in memory: 23 to 28 bytes per entry of lists in both directions; up to 52 per edge of a list in
// one direction, mostly for the lists in both directions.
constexpr std::int64_t kEntryBytes = 28;
constexpr std::int64_t kMetisEntryBytes = 32;  // beside these, while METIS has them
constexpr Count kNodeBytesInMemory = 120, kNodeBytesOfLists = 48;
constexpr Count kEdgesPerUnknownNode = 8;

std::int64_t bytes_per_node(const graph::InputSize& input, const MemoryUse& use) {
  return use.bytes_per_node + use.bytes_per_node_weight * input.node_weight_kinds;
}

/// Bytes in memory: an upper bound if there is a limit to keep; else both directions as most inputs list
/// them.
std::int64_t bytes_in_memory(const graph::InputSize& input, const MemoryUse& use,
                             const MemoryOptions& options) {
  const bool most = options.limit_bytes > 0 || options.both_directions;
  const Count nodes = input.nodes > 0 ? input.nodes : input.edges / kEdgesPerUnknownNode;
  const Count entries = most ? 2 * input.edges : input.edges;
  return kProgramBytes + entries * kEntryBytes + std::min(entries, use.metis_entries) * kMetisEntryBytes +
         nodes * std::max(kNodeBytesInMemory, kNodeBytesOfLists + bytes_per_node(input, use)) +
         input.bytes_in_memory + input.bytes_of_edges + input.bytes_mapped;
}

}  // namespace

MemoryUse memory_of_cut(const AssignOptions& assign) {
  // Most per node at one time, measured (tests/unit/partition): clusters, gains and parts of the finest
  // level.
  constexpr std::int64_t kOfCut = 72, kOfConstraint = 20;
  const bool weights = std::ranges::find(assign.balance, Constraint::weights) != assign.balance.end();
  const bool types = std::ranges::find(assign.balance, Constraint::types) != assign.balance.end();
  const Count constraints =
      std::ssize(assign.balance) - weights + (types ? graph::NodeWeights::kMostKinds - 1 : 0);
  // Bytes for the parts, their nodes and the pieces, while parts are cut further.
  constexpr std::int64_t kOfPieces = 16;
  const bool only_nodes = assign.balance == std::vector{Constraint::nodes};
  const bool pieces = assign.clusters > 0 || assign.method == PartitionMethod::split;
  const bool metis = assign.method == PartitionMethod::metis;
  const bool tries_metis =
      assign.method == PartitionMethod::automatic || (pieces && assign.method != PartitionMethod::multilevel);
  const bool given = assign.method == PartitionMethod::merge || assign.method == PartitionMethod::split;
  return {.what = "the cut",
          .bytes_per_node = kOfCut + (only_nodes ? 0 : kOfConstraint * constraints) +
                            (pieces ? kOfPieces : 0) + (given ? 4 : 0),
          .bytes_per_node_weight = weights ? kOfConstraint : 0,
          .metis_entries = metis         ? std::numeric_limits<Count>::max()
                           : tries_metis ? kSmallGraph
                                         : 0,
          .whole_graph = metis};
}

// Most per node at one time while lists are made (8 of their bounds, and ids of parts), and in use.
MemoryUse memory_of_summary() { return {.what = "a summary", .bytes_per_node = 48}; }
MemoryUse memory_of_conversion() { return {.what = "a conversion", .bytes_per_node = 48}; }

std::int64_t room_for_nodes(const graph::InputSize& input, const MemoryUse& use, std::int64_t limit_bytes) {
  const Count nodes = input.nodes;
  const std::int64_t held_bytes = input.bytes_in_memory;
  const std::int64_t per_node = bytes_per_node(input, use);
  const std::int64_t needed = kProgramBytes + nodes * per_node + held_bytes + kLeastRoomBytes;
  if (needed <= limit_bytes)
    return std::max(kLeastRoomBytes, limit_bytes - needed + kLeastRoomBytes - limit_bytes / kShareOfSlack);
  throw OutOfMemory(
      fmt::format("{} takes at least {} of memory even with the edges on disk, {} may be used: {} for {} "
                  "nodes ({} bytes each), {} for what is read as a whole, {} for buffers and the program",
                  use.what, format_bytes(needed), format_bytes(limit_bytes), format_bytes(nodes * per_node),
                  format_count(nodes), per_node, format_bytes(held_bytes),
                  format_bytes(kProgramBytes + kLeastRoomBytes)),
      fmt::format("{}Give --memory {} or more, on a host with that much.",
                  input.nodes_from.empty() ? "" : fmt::format("Check {}. ", input.nodes_from),
                  format_bytes_at_least(needed)));
}

int threads_within(std::int64_t capacity_bytes, int num_threads) {
  constexpr std::int64_t kThreadBytes = std::int64_t{16} << 20;
  const std::int64_t all = num_threads > 0 ? num_threads : available_cores();
  return static_cast<int>(std::clamp<std::int64_t>(capacity_bytes / kThreadBytes, 1, all));
}

bool holds(const MemoryPlan& plan, const graph::InputSize& input, const MemoryUse& use,
           const MemoryOptions& options) {
  if (!plan.on_disk) return bytes_in_memory(input, use, options) <= plan.limit_bytes;
  room_for_nodes(input, use, plan.limit_bytes);
  return true;
}

MemoryPlan plan_memory(const graph::InputSize& input, const MemoryUse& use, const MemoryOptions& options) {
  const bool asked = options.limit_bytes > 0;
  const std::int64_t limit =
      asked ? options.limit_bytes
            : static_cast<std::int64_t>(kShareOfFree * static_cast<double>(available_host_bytes()));
  const std::int64_t wanted = bytes_in_memory(input, use, options);
  if (wanted <= limit) return {.limit_bytes = limit};
  if (use.whole_graph)
    throw OutOfMemory(
        fmt::format("METIS takes the whole graph in memory: {} for {} nodes and {} edges, {} may be used",
                    format_bytes(wanted), format_count(input.nodes), format_count(input.edges),
                    format_bytes(limit)),
        "Use --method auto, which keeps edges on disk, or give more --memory.");
  return {.on_disk = true, .limit_bytes = limit, .capacity_bytes = room_for_nodes(input, use, limit)};
}

}  // namespace strata::partition
