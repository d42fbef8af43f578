#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "clean_lists.hpp"
#include "strata/graph/build_csc.hpp"
#include "strata/util/error.hpp"
#include "synthetic.hpp"

namespace strata::graph {
namespace {

using Direction = ReadOptions::Direction;
constexpr Count kNodesPerPiece = 4096;
constexpr double kUnitWeight = 1 << 20;  // weights are integers, so that their sums do not depend on an order
constexpr double kMostSigmas = 6;

double standard_normal(const KeyedWords& words, NodeId node) {
  const std::uint64_t index = static_cast<std::uint64_t>(node) * 2;
  const double radius = std::sqrt(-2 * std::log(1 - words.unit(index)));  // Box and Muller
  return radius * std::cos(2 * std::numbers::pi * words.unit(index + 1));
}

/// indptr of lognormal degrees: one edge a node, where there are enough, and the others in proportion to the
/// weights. The sum is exact, but for hubs that would have more neighbours than there are nodes.
std::vector<Count> lognormal_indptr(const SyntheticSpec& spec, ThreadPool& pool) {
  const KeyedWords words(spec.seed, Purpose::degree);
  std::vector<Count> indptr(static_cast<std::size_t>(spec.nodes) + 1, 0);
  pool.parallel_for(spec.nodes, kNodesPerPiece, [&](Count begin, Count end) {
    for (NodeId v = begin; v < end; ++v) {
      const double z = std::clamp(standard_normal(words, v), -kMostSigmas, kMostSigmas);
      indptr[static_cast<std::size_t>(v) + 1] =
          static_cast<Count>(std::exp(spec.sigma * z) * kUnitWeight) + 1;
    }
  });
  Count total = 0;
  for (NodeId v = 0; v < spec.nodes; ++v) total += indptr[static_cast<std::size_t>(v) + 1];
  const Count each = spec.edges >= spec.nodes ? 1 : 0;
  const auto rest = static_cast<unsigned __int128>(spec.edges - each * spec.nodes);
  Count weight = 0, given = 0;
  for (NodeId v = 0; v < spec.nodes; ++v) {
    weight += indptr[static_cast<std::size_t>(v) + 1];
    const auto share = static_cast<Count>(rest * static_cast<unsigned __int128>(weight) /
                                          static_cast<unsigned __int128>(total));
    const Count degree = std::min(each + share - given, spec.nodes);
    given = share;
    indptr[static_cast<std::size_t>(v) + 1] = indptr[static_cast<std::size_t>(v)] + degree;
  }
  return indptr;
}

/// Slot j of d takes u from [j/d, (j+1)/d) and the neighbour floor(u^2 n), so a list comes sorted and the
/// neighbours of all lists together are skewed as if each u were drawn from [0, 1). Where two slots meet,
/// which the lowest ids invite, the later moves up: with d <= n there is room.
void fill_skewed_lists(const SyntheticSpec& spec, ThreadPool& pool, CscGraph& graph) {
  const KeyedWords words(spec.seed, Purpose::edge);
  const auto nodes = static_cast<double>(spec.nodes);
  pool.parallel_for(spec.nodes, kNodesPerPiece, [&](Count begin, Count end) {
    for (NodeId v = begin; v < end; ++v) {
      const Count first = graph.indptr[static_cast<std::size_t>(v)],
                  last = graph.indptr[static_cast<std::size_t>(v) + 1];
      const double width = 1 / static_cast<double>(last - first);
      NodeId previous = -1;
      for (Count e = first; e < last; ++e) {
        const double u = (static_cast<double>(e - first) + words.unit(static_cast<std::uint64_t>(e))) * width;
        previous = std::min(std::max(previous + 1, static_cast<NodeId>(u * u * nodes)), spec.nodes - 1);
        graph.indices[static_cast<std::size_t>(e)] = previous;
      }
    }
  });
}

/// Nodes in rows of `width`, the last row perhaps shorter; each is joined with the ones beside, above and
/// below.
///
/// Edges are numbered node by node, the one to the right before the one below.
struct Grid {
  Count nodes, width;

  bool has_right(NodeId v) const { return (v + 1) % width != 0 && v + 1 < nodes; }
  bool has_below(NodeId v) const { return v + width < nodes; }
  EdgeId first_edge(NodeId v) const {
    const Count rights = (v / width) * (width - 1) + v % width;
    return rights + std::min(v, std::max<Count>(nodes - width, 0));
  }
  EdgeId right_edge(NodeId v) const { return first_edge(v); }
  EdgeId below_edge(NodeId v) const { return first_edge(v) + has_right(v); }

  template <typename Visit>
  void for_each_neighbor(NodeId v, Visit&& visit) const {
    if (v >= width) visit(v - width, below_edge(v - width));
    if (v % width != 0) visit(v - 1, right_edge(v - 1));
    if (has_right(v)) visit(v + 1, right_edge(v));
    if (has_below(v)) visit(v + width, below_edge(v));
  }
};

}  // namespace

std::vector<std::int32_t> random_labels(const SyntheticSpec& spec, ThreadPool& pool) {
  std::vector<std::int32_t> labels(static_cast<std::size_t>(spec.nodes));
  const KeyedWords words(spec.seed, Purpose::label);
  pool.parallel_for(spec.nodes, kNodesPerPiece, [&](Count begin, Count end) {
    for (NodeId v = begin; v < end; ++v)
      labels[static_cast<std::size_t>(v)] = static_cast<std::int32_t>(
          words.unit(static_cast<std::uint64_t>(v)) * static_cast<double>(spec.classes));
  });
  return labels;
}

void generate_lognormal(const SyntheticSpec& spec, const ReadOptions& options, ThreadPool& pool,
                        Graph& graph) {
  if (options.direction == Direction::undirected)
    throw InputError("synthetic: kind=lognormal is directed",
                     "Use kind=sbm or kind=rmat for an undirected graph.");
  graph.name = "synthetic-lognormal";
  graph.labels = random_labels(spec, pool);
  CscGraph& structure = graph.structure;
  structure.num_nodes = spec.nodes;
  structure.indptr = lognormal_indptr(spec, pool);
  structure.indices.resize(static_cast<std::size_t>(structure.indptr.back()));
  fill_skewed_lists(spec, pool, structure);
  const CleanPolicies policies{.duplicates = options.duplicates, .self_loops = options.self_loops};
  graph.cleaning = report_of(clean_lists(structure, policies, pool), policies);
  graph.undirected = is_symmetric(structure, pool);  // by chance, where there are very few nodes
}

void generate_grid(const SyntheticSpec& spec, const ReadOptions& options, ThreadPool& pool, Graph& graph) {
  if (options.direction == Direction::directed)
    throw InputError("synthetic: kind=grid is undirected", "Use kind=lognormal for a directed graph.");
  graph.name = "synthetic-grid";
  graph.undirected = true;
  const Grid grid{.nodes = spec.nodes, .width = spec.width};
  CscGraph& structure = graph.structure;
  structure.num_nodes = spec.nodes;
  structure.indptr.assign(static_cast<std::size_t>(spec.nodes) + 1, 0);
  for (NodeId v = 0; v < spec.nodes; ++v) {
    Count degree = 0;
    grid.for_each_neighbor(v, [&](NodeId, EdgeId) { ++degree; });
    structure.indptr[static_cast<std::size_t>(v) + 1] =
        structure.indptr[static_cast<std::size_t>(v)] + degree;
  }
  const auto entries = static_cast<std::size_t>(structure.indptr.back());
  structure.indices.resize(entries);
  structure.edge_ids.resize(entries);
  graph.labels.resize(static_cast<std::size_t>(spec.nodes));
  pool.parallel_for(spec.nodes, kNodesPerPiece, [&](Count begin, Count end) {
    for (NodeId v = begin; v < end; ++v) {
      auto place = static_cast<std::size_t>(structure.indptr[static_cast<std::size_t>(v)]);
      grid.for_each_neighbor(v, [&](NodeId neighbor, EdgeId edge) {
        structure.indices[place] = neighbor;
        structure.edge_ids[place++] = edge;
      });
      graph.labels[static_cast<std::size_t>(v)] =
          static_cast<std::int32_t>((v % spec.width) * spec.classes / spec.width);
    }
  });
  const Count edges = structure.num_edges() / 2;
  graph.cleaning = {.edges_read = edges, .reverse_added = edges};
}

}  // namespace strata::graph
