// SPDX-License-Identifier: Apache-2.0
#include "multilevel/regroup.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "assign/balance.hpp"
#include "multilevel/contract.hpp"
#include "multilevel/linear_order.hpp"
#include "multilevel/loads.hpp"
#include "strata/util/error.hpp"
#include "strata/util/log.hpp"
#include "strata/util/scratch.hpp"

namespace strata::partition {
namespace {

/// Neighbors of one node after another: in memory, or in a scratch file where the graph has its own there.
class ListsOfPiece {
 public:
  explicit ListsOfPiece(ScratchStore* scratch) : scratch_{scratch} {
    if (scratch != nullptr) writer_.emplace(*scratch);
  }
  void append(const std::vector<std::int32_t>& list) {
    begin_.push_back(begin_.back() + std::ssize(list));
    if (writer_)
      writer_->append(list);
    else
      ids_.insert(ids_.end(), list.begin(), list.end());
  }
  /// Gives the piece its lists, which come back from the file if they fit in memory.
  void finish(LevelGraph& piece) && {
    piece.own_begin = std::move(begin_);
    piece.own_ids = std::move(ids_);
    if (!writer_) return piece.use_own_lists();
    piece.stored_ids = std::move(*writer_).finish();
    const std::span<std::int32_t> stored = piece.stored_ids.span();
    constexpr std::int64_t kEntryBytes = 8;  // METIS may take the piece as a whole then, with 40 bytes each
    if (std::ssize(stored) * kEntryBytes <= scratch_->array_limit()) {
      piece.own_ids.assign(stored.begin(), stored.end());
      piece.stored_ids = {};
      return piece.use_own_lists();
    }
    piece.scratch = scratch_;
    piece.begin = piece.own_begin.data();
    piece.ids = stored.data();
  }

 private:
  ScratchStore* scratch_;
  std::vector<Count> begin_{0};
  std::vector<std::int32_t> ids_;
  std::optional<ScratchWriter<std::int32_t>> writer_;
};

/// The nodes of one part and the edges between them. `number` has the new id of every node of the part.
LevelGraph part_of_graph(const LevelGraph& graph, const std::vector<std::int32_t>& nodes,
                         const std::vector<std::int32_t>& given, std::vector<std::int32_t>& number) {
  LevelGraph result;
  result.num_nodes = std::ssize(nodes);
  result.num_constraints = graph.num_constraints;
  for (std::size_t i = 0; i < nodes.size(); ++i) number[at(nodes[i])] = static_cast<std::int32_t>(i);
  ListsOfPiece lists{graph.scratch};
  FarReader<std::int32_t> far{graph.scratch, graph.ids};
  std::vector<std::int32_t> list;
  for (const std::int32_t v : nodes) {
    const Count degree = graph.degree(v);
    const std::int32_t* const neighbors = far.read(graph.begin[v], degree);
    list.clear();
    for (Count e = 0; e < degree; ++e)
      if (given[at(neighbors[e])] == given[at(v)]) list.push_back(number[at(neighbors[e])]);
    lists.append(list);
    for (int c = 0; c < graph.num_constraints && !graph.node_weights.empty(); ++c)
      result.node_weights.push_back(graph.weight(v, c));
  }
  std::move(lists).finish(result);
  return result;
}

std::vector<std::vector<std::int32_t>> nodes_of_parts(const std::vector<std::int32_t>& given, int num_given) {
  std::vector<std::vector<std::int32_t>> nodes(at(num_given));
  for (std::size_t v = 0; v < given.size(); ++v) nodes[at(given[v])].push_back(static_cast<std::int32_t>(v));
  return nodes;
}

/// Runs of the nodes' own order, for parts that hardly have more nodes than they get pieces.
std::vector<std::int32_t> runs(Count num_nodes, int num_pieces) {
  std::vector<std::int32_t> result(at(num_nodes));
  for (Count i = 0; i < num_nodes; ++i) result[at(i)] = static_cast<std::int32_t>(i * num_pieces / num_nodes);
  return result;
}

/// The limits of the whole graph's parts; where a given part is too heavy for these, its own share.
std::vector<Count> limits_of_pieces(const LevelGraph& part, const MultilevelOptions& options, int pieces) {
  std::vector<Count> limits = total_weights(part);
  for (std::size_t c = 0; c < limits.size(); ++c) {
    const bool fits = limits[c] <= options.limits[c] * pieces;
    const Count share = std::max<Count>(1, most_of_share(limits[c], pieces, options.imbalance));
    limits[c] = fits ? std::min(share, options.limits[c]) : share;
  }
  return limits;
}

std::pair<Count, Count> score(const LevelGraph& graph, const std::vector<std::int32_t>& parts,
                              const MultilevelOptions& options, ThreadPool& pool) {
  const Loads loads{graph, parts, options.num_parts, options.limits};
  return {loads.total_excess(), cut_of(graph, parts, pool)};
}

/// The given parts that hold nodes. Throws InputError if there are fewer of them than new ones.
std::vector<std::int32_t> parts_with_nodes(const std::vector<std::int32_t>& given, int num_given,
                                           int num_parts) {
  std::vector<bool> holds_nodes(at(num_given));
  for (const std::int32_t part : given) holds_nodes[at(part)] = true;
  std::vector<std::int32_t> parts;
  for (std::int32_t part = 0; part < num_given; ++part)
    if (holds_nodes[at(part)]) parts.push_back(part);
  if (std::ssize(parts) < num_parts)
    throw InputError(fmt::format("only {} of the {} parts hold nodes: they cannot be merged to {}",
                                 parts.size(), num_given, num_parts),
                     "Give --parts at most that number, or --method auto.");
  return parts;
}

}  // namespace

std::vector<std::int32_t> merge_parts(const LevelGraph& graph, const std::vector<std::int32_t>& given,
                                      int num_given, const MultilevelOptions& options, ThreadPool& pool) {
  const std::vector<std::int32_t> filled = parts_with_nodes(given, num_given, options.num_parts);
  const LevelGraph parts = contract(graph, {given, num_given}, pool);
  std::vector<std::int32_t> group = multilevel_parts(parts, options, pool), neighbors(at(num_given));
  for (int part = 0; part < num_given; ++part)
    neighbors[at(part)] = part / (num_given / options.num_parts);  // as many in each, which always fits
  if (score(parts, neighbors, options, pool) < score(parts, group, options, pool))
    group = std::move(neighbors);
  std::vector<std::int32_t> group_of_filled;
  for (const std::int32_t part : filled) group_of_filled.push_back(group[at(part)]);
  fill_empty_parts(
      options.num_parts, [&](Count i) { return parts.degree(filled[at(i)]); }, group_of_filled);
  for (std::size_t i = 0; i < filled.size(); ++i) group[at(filled[i])] = group_of_filled[i];
  std::vector<std::int32_t> result(given.size());
  for (std::size_t v = 0; v < result.size(); ++v) result[v] = group[at(given[v])];
  return result;
}

std::vector<std::int32_t> split_parts(const LevelGraph& graph, const std::vector<std::int32_t>& given,
                                      int num_given, const MultilevelOptions& options, ThreadPool& pool) {
  const int pieces = options.num_parts / num_given;
  const std::vector<std::vector<std::int32_t>> nodes = nodes_of_parts(given, num_given);
  std::vector<std::int32_t> result(given.size()), number(given.size());
  MultilevelOptions of_part = options;
  of_part.num_parts = pieces;
  for (int part = 0; part < num_given; ++part) {
    const auto& mine = nodes[at(part)];
    const LevelGraph whole = part_of_graph(graph, mine, given, number);
    of_part.limits = limits_of_pieces(whole, options, pieces);
    const std::vector<std::int32_t> pieces_of =
        whole.num_nodes <= pieces ? runs(whole.num_nodes, pieces) : multilevel_parts(whole, of_part, pool);
    for (std::size_t i = 0; i < mine.size(); ++i) result[at(mine[i])] = part * pieces + pieces_of[i];
  }
  return result;
}

std::vector<std::int32_t> clusters_of_parts(const LevelGraph& graph, const std::vector<std::int32_t>& given,
                                            int num_given, const MultilevelOptions& options,
                                            ThreadPool& pool) {
  constexpr Count kLeastNodesPerCluster = 4;
  MultilevelOptions of_part = options;
  const auto cut = [&](const LevelGraph& piece) {
    if (piece.num_nodes < kLeastNodesPerCluster * options.num_parts)
      return runs(piece.num_nodes, options.num_parts);
    const double mean = static_cast<double>(piece.num_nodes) / options.num_parts;
    of_part.limits = {static_cast<Count>(std::ceil(mean * (1 + options.imbalance)))};
    std::vector<std::int32_t> clusters = multilevel_parts(piece, of_part, pool);
    number_by_nearness(piece, options.num_parts, options.seed, pool, clusters);
    return clusters;
  };
  if (num_given == 1) return cut(graph);
  const std::vector<std::vector<std::int32_t>> nodes = nodes_of_parts(given, num_given);
  std::vector<std::int32_t> result(given.size()), number(given.size());
  ProgressBar bar{"clusters", num_given, "parts"};
  for (const auto& mine : nodes) {
    const std::vector<std::int32_t> clusters = cut(part_of_graph(graph, mine, given, number));
    for (std::size_t i = 0; i < mine.size(); ++i) result[at(mine[i])] = clusters[i];
    bar.advance();
  }
  return result;
}

}  // namespace strata::partition
