// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "build_csc.hpp"
#include "clean_lists.hpp"
#include "generators/synthetic_kinds.hpp"

namespace strata::graph {
namespace {

constexpr Count kNodesPerPiece = 4096;

void fill_skewed_lists(const SyntheticSpec& spec, ThreadPool& pool, CscGraph& graph) {
  const KeyedWords words(spec.seed, Purpose::edge);
  pool.parallel_for(spec.nodes, kNodesPerPiece, [&](Count begin, Count end) {
    for (NodeId v = begin; v < end; ++v) {
      const Count first = graph.indptr[static_cast<std::size_t>(v)],
                  last = graph.indptr[static_cast<std::size_t>(v) + 1];
      const SkewedList list(words, spec.nodes, first, last - first);
      NodeId previous = -1;
      for (Count e = first; e < last; ++e) {
        previous = std::min(std::max(previous + 1, list.requested(e - first)), spec.nodes - 1);
        graph.indices[static_cast<std::size_t>(e)] = previous;
      }
    }
  });
}

/// Nodes in rows of `width`; the last row may be shorter. Each node has edges to the nodes beside, above and
/// below it.
///
/// Edges are numbered node by node: first the edge to the right, then the edge down.
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

void generate_lognormal(const SyntheticSpec& spec, const ReadOptions& options, ThreadPool& pool,
                        Graph& graph) {
  graph.labels.resize(static_cast<std::size_t>(spec.nodes));
  random_labels(spec, 0, graph.labels, pool);
  CscGraph& structure = graph.structure;
  structure.num_nodes = spec.nodes;
  structure.indptr.resize(static_cast<std::size_t>(spec.nodes) + 1);
  lognormal_indptr(spec, NodeShare::all(spec.nodes), structure.indptr.data(), pool);
  structure.indices.resize(static_cast<std::size_t>(structure.indptr.back()));
  fill_skewed_lists(spec, pool, structure);
  const CleanPolicies policies{.duplicates = options.duplicates, .self_loops = options.self_loops};
  graph.cleaning = report_of(clean_lists(structure, policies, pool), policies);
  graph.undirected = is_symmetric(structure, pool);  // possible by chance in graphs of very few nodes
}

void generate_grid(const SyntheticSpec& spec, ThreadPool& pool, Graph& graph) {
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
