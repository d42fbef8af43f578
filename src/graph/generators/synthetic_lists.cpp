// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "build_csc.hpp"
#include "clean_lists.hpp"
#include "generators/synthetic_kinds.hpp"

namespace strata::graph {
namespace {

constexpr Count kNodesPerPiece = 4096;

/// The in-neighbors of nodes whose numbers `indptr` gives.
class SkewedLists {
 public:
  SkewedLists(const SyntheticSpec& spec, const std::vector<Count>& indptr)
      : nodes_(spec.nodes), words_(spec.seed, Purpose::edge), indptr_(indptr) {}

  /// Calls take(source, v, edge) for the list of v, in the order of its sources.
  template <typename Take>
  void visit(NodeId v, Take&& take) const {
    const Count first = indptr_[at(v)], last = indptr_[at(v) + 1];
    const SkewedList list(words_, nodes_, first, last - first);
    NodeId previous = -1;
    for (Count e = first; e < last; ++e) {
      previous = std::min(std::max(previous + 1, list.requested(e - first)), nodes_ - 1);
      take(previous, v, e);
    }
  }

 private:
  Count nodes_;
  KeyedWords words_;
  const std::vector<Count>& indptr_;
};

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

void label_grid(const SyntheticSpec& spec, ThreadPool& pool, Graph& graph) {
  graph.labels.resize(at(spec.nodes));
  pool.parallel_for(spec.nodes, kNodesPerPiece, [&](Count begin, Count end) {
    for (NodeId v = begin; v < end; ++v)
      graph.labels[at(v)] = static_cast<std::int32_t>((v % spec.width) * spec.classes / spec.width);
  });
}

void store_grid(const Grid& grid, Assembly& assembly, Graph& graph) {
  const auto draw = [&](Count begin, Count end, const DrawnEdges::Take& take) {
    for (NodeId v = begin; v < end; ++v)
      grid.for_each_neighbor(v, [&](NodeId neighbor, EdgeId edge) { take(neighbor, v, edge); });
  };
  build_structure(graph, {.count = 2 * grid.nodes, .units = grid.nodes, .draw = draw}, {}, false, assembly);
}

void list_grid(const Grid& grid, ThreadPool& pool, CscGraph& structure) {
  structure.indptr.assign(at(grid.nodes) + 1, 0);
  for (NodeId v = 0; v < grid.nodes; ++v) {
    Count degree = 0;
    grid.for_each_neighbor(v, [&](NodeId, EdgeId) { ++degree; });
    structure.indptr[at(v) + 1] = structure.indptr[at(v)] + degree;
  }
  const auto entries = at(structure.indptr.back());
  structure.indices.resize(entries);
  structure.edge_ids.resize(entries);
  pool.parallel_for(grid.nodes, kNodesPerPiece, [&](Count begin, Count end) {
    for (NodeId v = begin; v < end; ++v) {
      auto place = at(structure.indptr[at(v)]);
      grid.for_each_neighbor(v, [&](NodeId neighbor, EdgeId edge) {
        structure.indices[place] = neighbor;
        structure.edge_ids[place++] = edge;
      });
    }
  });
}

}  // namespace

void generate_lognormal(const SyntheticSpec& spec, const ReadOptions& options, Assembly& assembly,
                        Graph& graph) {
  ThreadPool& pool = assembly.pool;
  graph.labels.resize(at(spec.nodes));
  random_labels(spec, 0, graph.labels, pool);
  CscGraph& structure = graph.structure;
  structure.num_nodes = spec.nodes;
  structure.indptr.resize(at(spec.nodes) + 1);
  lognormal_indptr(spec, NodeShare::all(spec.nodes), structure.indptr.data(), pool);
  const Count edges = structure.indptr.back();
  if (assembly.scratch != nullptr) {
    const std::vector<Count> indptr = std::exchange(structure.indptr, {});
    const SkewedLists lists(spec, indptr);
    const auto draw = [&](Count begin, Count end, const DrawnEdges::Take& take) {
      for (NodeId v = begin; v < end; ++v) lists.visit(v, take);
    };
    return build_structure(graph, {.count = edges, .have_ids = false, .units = spec.nodes, .draw = draw},
                           options, false, assembly);
  }
  structure.indices.resize(at(edges));
  const SkewedLists lists(spec, structure.indptr);
  pool.parallel_for(spec.nodes, kNodesPerPiece, [&](Count begin, Count end) {
    for (NodeId v = begin; v < end; ++v)
      lists.visit(v, [&](NodeId source, NodeId, EdgeId edge) { structure.indices[at(edge)] = source; });
  });
  const CleanPolicies policies{.duplicates = options.duplicates, .self_loops = options.self_loops};
  graph.cleaning = report_of(clean_lists(structure, policies, pool), policies);
  graph.undirected = is_symmetric(structure, pool);  // possible by chance in graphs of very few nodes
}

void generate_grid(const SyntheticSpec& spec, Assembly& assembly, Graph& graph) {
  const Grid grid{.nodes = spec.nodes, .width = spec.width};
  const bool stored = assembly.scratch != nullptr;
  label_grid(spec, assembly.pool, graph);
  graph.structure.num_nodes = spec.nodes;
  if (stored)
    store_grid(grid, assembly, graph);
  else
    list_grid(grid, assembly.pool, graph.structure);
  graph.undirected = true;
  const Count edges = (stored ? assembly.lists.num_edges() : graph.structure.num_edges()) / 2;
  graph.cleaning = {.edges_read = edges, .reverse_added = edges};
}

}  // namespace strata::graph
