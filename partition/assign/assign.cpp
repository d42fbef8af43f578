// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "assign/metis_assign.hpp"
#include "multilevel/multilevel_assign.hpp"
#include "strata/partition/build.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "strata/util/random.hpp"
#include "strata/util/text.hpp"

namespace strata::partition {
namespace {

constexpr Count kAssignGrain = Count{1} << 16;

void check(const CompactGraph& graph, const AssignOptions& options) {
  check_num_nodes(graph.num_nodes, options);
  check_node_weights(graph.node_weights.kinds, options);
  check_types(graph.types, options);
  if (options.method != PartitionMethod::merge && options.method != PartitionMethod::split) return;
  check_regrouping(options);
  if (std::ssize(options.given->of_node) != graph.num_nodes)
    throw InputError(fmt::format("{} nodes in the given parts, {} in the graph",
                                 options.given->of_node.size(), graph.num_nodes));
}

std::vector<std::int32_t> equal_pieces(const CompactGraph& graph, const AssignOptions& options,
                                       ThreadPool& pool) {
  std::vector<std::int32_t> part_of(static_cast<std::size_t>(graph.num_nodes));
  const auto size = static_cast<std::uint64_t>(graph.num_nodes);
  const std::uint64_t key = mix64(options.seed ^ 0x7061727473ull);
  pool.parallel_for(graph.num_nodes, kAssignGrain, [&](Count begin, Count end) {
    for (Count v = begin; v < end; ++v) {
      const auto id = static_cast<std::uint64_t>(v);
      const std::uint64_t place = options.method == PartitionMethod::random ? shuffled(id, size, key) : id;
      part_of[static_cast<std::size_t>(v)] =
          static_cast<std::int32_t>(place * static_cast<std::uint64_t>(options.num_parts) / size);
    }
  });
  return part_of;
}

/// Reads one part id per line; a line break at the end is optional.
std::vector<std::int32_t> from_file(const CompactGraph& graph, const AssignOptions& options) {
  check_parts_file(options.file);
  const std::string contents = read_file(options.file);
  refuse_compressed(contents, options.file.string());
  const std::string_view text = without_byte_order_mark(contents);
  std::vector<std::int32_t> part_of;
  part_of.reserve(static_cast<std::size_t>(graph.num_nodes));
  const char *at = text.data(), *end = at + text.size();
  while (at != end) {
    std::int32_t part = -1;
    const auto [next, error] = std::from_chars(at, end, part);
    const char* stop = next != end && *next == '\r' ? next + 1 : next;
    const bool line_ends = stop == end || *stop == '\n';
    if (error != std::errc{} || !line_ends || part < 0 || part >= options.num_parts) {
      throw InputError(
          fmt::format(
              "{}, line {}: \"{}\" is no part id in [0, {})", options.file.string(), part_of.size() + 1,
              printable(std::string(
                  at, std::min(std::find(at, end, '\n'), at + std::min<std::ptrdiff_t>(32, end - at)))),
              options.num_parts),
          "Write one part id a line, as gpmetis does; --parts must be the number it was given.");
    }
    part_of.push_back(part);
    at = stop == end ? stop : stop + 1;
  }
  if (static_cast<Count>(part_of.size()) != graph.num_nodes) {
    throw InputError(fmt::format("{} has {} lines, the graph {} nodes", options.file.string(), part_of.size(),
                                 graph.num_nodes),
                     "Write one part id a line for every node, in the order of the original ids.");
  }
  return part_of;
}

}  // namespace

void check_parts_file(const std::filesystem::path& file) {
  std::error_code code;
  if (std::filesystem::is_regular_file(file, code)) return;
  throw InputError(fmt::format("--method file:{}: no such file", file.string()),
                   "Name a file with one part id a line, as gpmetis writes it.");
}

void check_num_nodes(Count num_nodes, const AssignOptions& options) {
  if (options.num_parts < 1)
    throw InputError(fmt::format("{} parts", options.num_parts), "Give --parts 1 or more.");
  if (options.num_parts > num_nodes)
    throw InputError(fmt::format("{} parts for {} nodes: some would be empty", options.num_parts, num_nodes),
                     "Give --parts at most the number of nodes.");
  if (Count{options.clusters} * options.num_parts > num_nodes)
    throw InputError(fmt::format("{} clusters in each of {} parts for {} nodes", options.clusters,
                                 options.num_parts, num_nodes),
                     fmt::format("Give --clusters {} or fewer: together at most the number of nodes.",
                                 num_nodes / options.num_parts));
}

void check_node_weights(int kinds, const AssignOptions& options) {
  const bool asked = std::ranges::find(options.balance, Constraint::weights) != options.balance.end();
  if (!asked || kinds > 0 || !looks_for_few_cut_edges(options.method)) return;
  throw InputError(
      "--balance weights: the nodes of the input have no weights",
      "They come from a metis:FILE whose code is 010 or 011, or from node_weight.npy in npy:DIR; "
      "parts do not keep them.");
}

void check_types(const graph::GraphTypes& types, const AssignOptions& options) {
  const bool asked = std::ranges::find(options.balance, Constraint::types) != options.balance.end();
  if (!asked || !looks_for_few_cut_edges(options.method)) return;
  const std::size_t count = types.nodes.size();
  if (count < 2)
    throw InputError("--balance types: the nodes of the input have one type",
                     "Leave types out; nodes balances all of them.");
  if (count > graph::NodeWeights::kMostKinds)
    throw InputError(fmt::format("--balance types: the nodes of the input have {} types, at most {} can be "
                                 "balanced",
                                 count, graph::NodeWeights::kMostKinds),
                     "Balance nodes, edges or train instead.");
}

void check_regrouping(const AssignOptions& options) {
  if (options.given == nullptr) throw InputError("merge and split need the parts that there are");
  const bool merge = options.method == PartitionMethod::merge;
  const int given = options.given->count;
  if (merge && (options.num_parts > given || given % options.num_parts != 0))
    throw InputError(fmt::format("{} parts cannot be merged to {}", given, options.num_parts),
                     fmt::format("Give a divisor of {}, or --method auto.", given));
  if (!merge && options.num_parts % given != 0)
    throw InputError(fmt::format("{} parts cannot be split into {}", given, options.num_parts),
                     fmt::format("Give a multiple of {}, or --method auto.", given));
}

std::string name_of(Constraint constraint, const CompactGraph& graph, int kind) {
  if (constraint == Constraint::types) return "type " + graph.types.nodes[static_cast<std::size_t>(kind)];
  return fmt::format("{}{}", enum_name(constraint),
                     kinds_of(constraint, graph) > 1 ? fmt::format(" {}", kind + 1) : "");
}

int kinds_of(Constraint constraint, const CompactGraph& graph) {
  if (constraint == Constraint::types)
    return graph.types.nodes.size() > 1 ? static_cast<int>(graph.types.nodes.size()) : 0;
  return constraint == Constraint::weights ? graph.node_weights.kinds : 1;
}

std::vector<std::int32_t> weights_of(Constraint constraint, const CompactGraph& graph,
                                     const std::vector<NodeId>& train, int kind) {
  std::vector<std::int32_t> weights(static_cast<std::size_t>(graph.num_nodes),
                                    constraint == Constraint::nodes ? 1 : 0);
  if (constraint == Constraint::train) {
    for (const NodeId v : train) weights[static_cast<std::size_t>(v)] = 1;
  }
  if (constraint == Constraint::edges) {
    constexpr Count kMost = std::numeric_limits<std::int32_t>::max();
    for (NodeId v = 0; v < graph.num_nodes; ++v) {
      weights[static_cast<std::size_t>(v)] = static_cast<std::int32_t>(std::min(graph.in_degree(v), kMost));
    }
  }
  if (constraint == Constraint::types) {
    const auto first = graph.types.node_offsets.begin() + kind;
    std::fill(weights.begin() + first[0], weights.begin() + first[1], 1);
  }
  if (constraint == Constraint::weights) {
    const auto& [kinds, values] = graph.node_weights;
    for (std::size_t v = 0; v < weights.size(); ++v)
      weights[v] = values[v * static_cast<std::size_t>(kinds) + static_cast<std::size_t>(kind)];
  }
  return weights;
}

std::vector<std::int32_t> assign_parts(const CompactGraph& graph, const std::vector<NodeId>& train,
                                       const AssignOptions& options, ThreadPool& pool) {
  check(graph, options);
  switch (options.method) {
    case PartitionMethod::automatic:
    case PartitionMethod::multilevel:
    case PartitionMethod::merge:
    case PartitionMethod::split:
      return multilevel_assign(graph, train, options, pool);
    case PartitionMethod::metis:
      return metis_assign(graph, train, options, pool);
    case PartitionMethod::random:
    case PartitionMethod::range:
      return equal_pieces(graph, options, pool);
    case PartitionMethod::file:
      return from_file(graph, options);
  }
  throw Error("unknown method");
}

std::vector<std::int32_t> cut_clusters(const CompactGraph& graph, const std::vector<std::int32_t>& part_of,
                                       const AssignOptions& options, ThreadPool& pool) {
  check(graph, options);
  return multilevel_clusters(graph, part_of, options, pool);
}

}  // namespace strata::partition
