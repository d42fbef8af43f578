// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "strata/util/label_shape.hpp"
#include "strata/util/types.hpp"

namespace strata::graph {

/// Whether a weighted sampler can use this value: not negative, not infinite, not NaN. It never chooses an
/// edge of weight 0.
inline bool is_edge_weight(float value) { return value >= 0 && value <= std::numeric_limits<float>::max(); }

/// A relation: edges of one kind, from nodes of one type to nodes of another.
struct EdgeType {
  std::string source = "node", name = "to", destination = "node";

  bool operator==(const EdgeType&) const = default;
};

/// The types of a graph. Original ids of the nodes of a type are a range, and so are edge ids of a relation:
/// type t has the nodes [node_offsets[t], node_offsets[t + 1]). An id within a type counts from its offset.
///
///     2 papers and 3 authors: node_offsets {0, 2, 5}, and the second author is node 3
struct GraphTypes {
  std::vector<std::string> nodes = {"node"};
  std::vector<EdgeType> edges = {{}};
  std::vector<NodeId> node_offsets = {};  ///< [types + 1], or empty: one type
  std::vector<EdgeId> edge_offsets = {};  ///< [relations + 1], or empty: one relation
  /// [types] columns of the features of each type, 0: none. Narrower rows than the table's end with zeros.
  /// Empty: all types have all columns.
  std::vector<Count> feature_cols = {};

  bool several() const { return nodes.size() > 1 || edges.size() > 1; }
  bool typed() const { return *this != GraphTypes{}; }  ///< whether somebody named types, or one of each
  bool operator==(const GraphTypes&) const = default;
};

/// Where the neighbors over each relation lie. The list of a node consists of sublists, one for each relation
/// over which it has neighbors, ascending by relation. An owner; empty in graphs of one relation.
///
///     node 0 <- {4, 7} over relation 0, {2} over relation 2; node 1 <- {5} over relation 2
///     first {0, 2, 3}   relations {0, 2, 2}   begins {0, 2, 3, 4}
struct Sublists {
  std::vector<Count> first;           ///< [num_nodes + 1] each node's first sublist
  std::vector<Count> begins;          ///< [sublists + 1] positions in CscGraph::indices
  std::vector<RelationId> relations;  ///< [sublists]

  Count size() const { return static_cast<Count>(relations.size()); }
};

/// In-neighbors of every node: `indices[indptr[v]..indptr[v+1])`. Host memory; an owner.
///
/// Lists are ordered by (relation, neighbor's original id, edge id). `edge_ids[e]` is the edge's position in
/// the input; both directions of an undirected edge share it.
///
///     edges 0->1, 2->1, 1->2  gives  indptr {0,0,2,3}  indices {0,2,1}  edge_ids {0,1,2}
struct CscGraph {
  Count num_nodes = 0;
  std::vector<Count> indptr;        ///< [num_nodes + 1]
  std::vector<NodeId> indices;      ///< [num_edges]
  std::vector<EdgeId> edge_ids;     ///< [num_edges], or empty: entry e of `indices` is edge e
  std::vector<float> weights = {};  ///< [num_edges], each is_edge_weight(); empty: no weights
  Sublists sublists = {};

  Count num_edges() const { return static_cast<Count>(indices.size()); }
};

/// Node features, row-major, in host memory: owned, or read in place from a mapped file that `keep_alive`
/// holds.
struct FeatureTable {
  Count rows = 0, cols = 0;
  DType dtype = DType::f32;         ///< f32, f16 or bf16
  const std::byte* data = nullptr;  ///< [rows, cols]
  std::shared_ptr<const void> keep_alive;

  std::size_t row_bytes() const { return at(cols) * size_of(dtype); }
};

/// Weights of nodes for balancing parts: what a node costs, of one or several kinds.
struct NodeWeights {
  int kinds = 0;                          ///< 0: none
  std::vector<std::int32_t> values = {};  ///< [num_nodes, kinds], each 0 or more

  static constexpr int kMostKinds = 16;
};

/// Node ids of each split, ascending.
struct Splits {
  std::vector<NodeId> train, valid, test;
};

/// Edges that no neighbor list has, because they are to be predicted: no sampler meets them. Ids are original
/// ids, edges ascend by (edge id, source).
struct HeldEdges {
  std::vector<NodeId> sources, destinations;
  std::vector<EdgeId> edge_ids;

  Count size() const { return static_cast<Count>(edge_ids.size()); }
  bool operator==(const HeldEdges&) const = default;
};
HeldEdges in_order(const HeldEdges& edges);  ///< ascending, as above

/// The edges of validation and test; those of the lists are for training. An edge that is both ways in the lists
/// of an undirected graph is here once.
struct EdgeSplits {
  HeldEdges valid, test;

  bool any() const { return valid.size() + test.size() > 0; }
  bool operator==(const EdgeSplits&) const = default;
};

/// What cleaning changed in the input; part of the partitioner's report. All counts except `reverse_added`
/// are of edges as listed, so that num_edges == edges_read - self_loops_removed - duplicates_removed +
/// reverse_added, before edges are held out.
struct CleaningReport {
  Count edges_read = 0;  ///< as listed in the input
  Count self_loops = 0;  ///< found
  Count duplicates = 0;  ///< found: the same (source, destination) again
  Count self_loops_removed = 0;
  Count duplicates_removed = 0;
  Count reverse_added = 0;  ///< directions added because the input is undirected
};

/// A whole graph as readers and generators give it. Ids are original ids.
struct Graph {
  std::string name;
  GraphTypes types = {};
  CscGraph structure;
  bool undirected = false;  ///< every edge is present in both directions
  FeatureTable features;    ///< cols == 0: none
  /// [num_nodes, label_words()] as label_shape() says; empty: no labels.
  std::vector<std::int32_t> labels;
  Count num_classes = 0;
  bool multi_label = false;  ///< a node may have several classes
  Count target_cols = 0;     ///< labels are so many targets of regression; 0: classes
  Splits splits;
  EdgeSplits edge_splits = {};
  NodeWeights node_weights = {};
  CleaningReport cleaning;
  /// A line per node with its name in the input; empty: nodes are named by their numbers.
  std::string node_names = {};

  Count num_nodes() const { return structure.num_nodes; }
  LabelShape label_shape() const { return {num_classes, multi_label, target_cols}; }
  Count label_words() const { return label_shape().words(); }
};

/// Mean and standard deviation of the targets of training nodes in a column, which a model learns scaled.
struct TargetScale {
  double mean = 0, deviation = 1;
  bool operator==(const TargetScale&) const = default;
};

/// The scale of each column of targets. A column that does not vary has the deviation 1, one without targets the
/// mean 0, too.
std::vector<TargetScale> target_scales(const Graph& graph);

enum class LabelKind { classes, targets };

enum class EdgePolicy { keep, remove };  ///< what to do with duplicates and self-loops

struct ReadOptions {
  EdgePolicy duplicates = EdgePolicy::remove;
  EdgePolicy self_loops = EdgePolicy::keep;
  enum class Direction {
    automatic,
    directed,
    /// With `automatic`, the dataset decides.
    undirected
  } direction = Direction::automatic;
  /// Scale each row so that its absolute values sum to 1 (rows of zeros stay).
  bool normalize_features = false;
  bool allow_outside_paths = false;  ///< whether metadata.yaml may name files outside its folder
  int num_threads = 0;               ///< 0: all cores of this process
  /// Called by readers of files as soon as the number of nodes is known, before anything is made that grows
  /// with it: what it throws ends the reading.
  std::function<void(Count nodes)> on_nodes_known = {};
};

/// Name and version of the library that this process has loaded: "HDF5 1.10.8".
std::string hdf5_version();

}  // namespace strata::graph
