// SPDX-License-Identifier: Apache-2.0
#include "multilevel/regroup.hpp"

#include <utility>

#include "multilevel/contract.hpp"
#include "multilevel/loads.hpp"

namespace strata::partition {
namespace {

std::size_t at(Count i) { return static_cast<std::size_t>(i); }

/// The nodes of one part and the edges between them. `number` has the new id of every node of the part.
LevelGraph part_of_graph(const LevelGraph& graph, const std::vector<std::int32_t>& nodes,
                         const std::vector<std::int32_t>& given, std::vector<std::int32_t>& number) {
  LevelGraph result;
  result.num_nodes = std::ssize(nodes);
  result.num_constraints = graph.num_constraints;
  result.own_begin = {0};
  for (std::size_t i = 0; i < nodes.size(); ++i) number[at(nodes[i])] = static_cast<std::int32_t>(i);
  for (const std::int32_t v : nodes) {
    for (Count e = graph.begin[v]; e < graph.begin[v + 1]; ++e) {
      if (given[at(graph.ids[e])] != given[at(v)]) continue;
      result.own_ids.push_back(number[at(graph.ids[e])]);
      if (graph.edge_weights != nullptr) result.own_edge_weights.push_back(graph.edge_weights[at(e)]);
    }
    result.own_begin.push_back(std::ssize(result.own_ids));
    for (int c = 0; c < graph.num_constraints && !graph.node_weights.empty(); ++c)
      result.node_weights.push_back(graph.weight(v, c));
  }
  result.use_own_lists();
  return result;
}

std::pair<Count, Count> score(const LevelGraph& graph, const std::vector<std::int32_t>& parts,
                              const MultilevelOptions& options, ThreadPool& pool) {
  const Loads loads{graph, parts, options.num_parts, options.limits};
  return {loads.total_excess(), cut_of(graph, parts, pool)};
}

}  // namespace

std::vector<std::int32_t> merge_parts(const LevelGraph& graph, const std::vector<std::int32_t>& given,
                                      int num_given, const MultilevelOptions& options, ThreadPool& pool) {
  const LevelGraph parts = contract(graph, {given, num_given}, pool);
  std::vector<std::int32_t> group = multilevel_parts(parts, options, pool), neighbors(at(num_given));
  for (int part = 0; part < num_given; ++part)
    neighbors[at(part)] = part / (num_given / options.num_parts);  // as many in each, which always fits
  if (score(parts, neighbors, options, pool) < score(parts, group, options, pool))
    group = std::move(neighbors);
  std::vector<std::int32_t> result(given.size());
  for (std::size_t v = 0; v < result.size(); ++v) result[v] = group[at(given[v])];
  return result;
}

std::vector<std::int32_t> split_parts(const LevelGraph& graph, const std::vector<std::int32_t>& given,
                                      int num_given, const MultilevelOptions& options, ThreadPool& pool) {
  const int pieces = options.num_parts / num_given;
  std::vector<std::vector<std::int32_t>> nodes(at(num_given));
  for (std::size_t v = 0; v < given.size(); ++v) nodes[at(given[v])].push_back(static_cast<std::int32_t>(v));
  std::vector<std::int32_t> result(given.size()), number(given.size());
  MultilevelOptions of_part = options;
  of_part.num_parts = pieces;
  for (int part = 0; part < num_given; ++part) {
    const auto& mine = nodes[at(part)];
    const LevelGraph piece = part_of_graph(graph, mine, given, number);
    const std::vector<std::int32_t> pieces_of = multilevel_parts(piece, of_part, pool);
    for (std::size_t i = 0; i < mine.size(); ++i) result[at(mine[i])] = part * pieces + pieces_of[i];
  }
  return result;
}

}  // namespace strata::partition
