// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "build_csc.hpp"
#include "readers/assemble.hpp"
#include "readers/edge_weights.hpp"
#include "readers/text/edge_buffer.hpp"
#include "strata/graph/graph.hpp"
#include "strata/graph/npy.hpp"
#include "strata/graph/relation_ranges.hpp"

namespace strata::graph {

/// The nodes and edges of a graph of several types, as readers find them.
struct TypedParts {
  struct Nodes {
    std::string type;
    Count count = 0;
    FeatureTable features = {};  ///< cols == 0: none
    std::string names = {};      ///< a line per node; empty: their numbers within the type
  };
  struct Edges {
    EdgeType type;
    EdgeList list = {};                                    ///< each end counts within its type
    std::vector<std::shared_ptr<const void>> owners = {};  ///< keep `list` valid
  };
  std::string name;
  std::vector<Nodes> nodes;
  std::vector<Edges> edges;
};

/// The relation that "author__writes__paper" names, with `separator` "__". Throws InputError naming `origin`.
EdgeType parse_relation(const std::string& text, const std::string& separator, const std::string& origin);

/// Edges of an array of shape (2, E) or (E, 2), see edges_of(), or those of a buffer.
TypedParts::Edges edges_between(EdgeType type, const NpyArray& ends, ScratchStore* scratch = nullptr);
TypedParts::Edges edges_between(EdgeType type, EdgeBuffer ends);
void give_weights(TypedParts::Edges& edges, EdgeWeights weights, const std::string& origin);

/// Adds (destination, rev_NAME, source) for every relation; its edges have the ids of another relation.
void add_reverses(TypedParts& parts);

/// The types whose nodes get labels and splits: the one that is `wanted`, or all of `labelled`. Warns of labels
/// that are not used. Throws InputError naming `origin` for a type that does not exist.
std::vector<std::size_t> choose_targets(const std::vector<TypedParts::Nodes>& nodes,
                                        const std::vector<std::size_t>& labelled, const std::string& wanted,
                                        const std::string& origin);

/// The graph, without labels and splits. Relation r has the edges of parts.edges[r], of which edge e has the
/// id edge_offsets[r] + e. What is one type of nodes and one relation becomes a graph without types. Throws
/// InputError for ids that a type does not have and for types that do not exist; OutOfMemory.
Graph join_types(TypedParts parts, const ReadOptions& options, Assembly& assembly);

/// Sets types, lists and cleaning of a graph. Also takes one type of one relation.
void join_lists(const TypedParts& parts, const ReadOptions& options, ThreadPool& pool, Graph& graph);
/// The same into the assembly's scratch files.
void join_stored_lists(const TypedParts& parts, const ReadOptions& options, Assembly& assembly, Graph& graph);

/// Features of all types in one table: narrower rows end with zeros. Sets features and types.feature_cols.
void join_features(const TypedParts& parts, ThreadPool& pool, Graph& graph, ScratchStore* scratch = nullptr);

/// Puts back what readers of files about nodes made of nodes_of() the type. Classes of each type count from 0, and
/// the graph has as many as the type with most. Throws InputError if types have labels of different kinds.
void put_nodes(Graph nodes, std::size_t type, Graph& graph);

}  // namespace strata::graph
