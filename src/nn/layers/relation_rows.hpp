// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "layers/ops.hpp"
#include "strata/graph/graph.hpp"
#include "strata/sampling/block.hpp"

namespace strata::nn {

/// The edges of a block with a label for each: its relation.
struct LabelledEdges {
  sampling::Block block;
  at::Tensor labels;   ///< int32 [block.num_edges], ascending within the list of each dst node
  int num_labels = 1;  ///< labels are below it
  std::vector<at::Tensor> arrays = {};  ///< of the block, if nobody else owns them
};

/// A layer's rows over several relations: one for each dst node and label that have an edge. Rows are sorted
/// by label, then by dst node, so that those of a label are a slice, which one grouped product maps.
///
///     dst 0 <- {4, 7} over relation 0, {2} over relation 2; dst 1 <- {5} over relation 2
///     rows {(0, 0), (0, 2), (1, 2)}   ends {1, 1, 3}   edges {4, 7, 2, 5}
///
/// On a GPU the host reads nothing: it knows a bound of the number of rows. Rows that nothing belongs to, at
/// the end or between labels, have no edges. An owner.
struct RelationRows {
  at::Tensor ends;            ///< int32 [labels] ends of the labels' slices of rows
  at::Tensor labels;          ///< int32 [edges] labels of the edges of `neighbors`
  sampling::Block neighbors;  ///< src nodes -> rows; its `indices` are the edges in the order of rows
  sampling::Block nodes;      ///< rows -> dst nodes, with transpose
  at::Tensor weights;         ///< those of `neighbors`, if the block has some (Block::edge_weights)
  std::vector<at::Tensor> arrays;

  Count size() const { return neighbors.num_dst; }
};

struct RowsRequest {
  bool transpose = false;  ///< the transpose of `neighbors`, which gradients of src rows need
  Count alignment = 1;     ///< of the labels' first rows
};

/// Makes the rows on the device of the block: in plain code on the cpu, by libtorch's operations elsewhere.
/// REQUIRES: packed lists.
std::shared_ptr<const RelationRows> make_relation_rows(const LabelledEdges& edges,
                                                       const RowsRequest& request);
/// The same by libtorch's operations on any device.
std::shared_ptr<const RelationRows> make_relation_rows_by_torch(const LabelledEdges& edges,
                                                                const RowsRequest& request);

/// The block of the reverse direction: rows of dst nodes go to the rows that they belong to.
sampling::Block reversed(const sampling::Block& block);
/// The edges by their src nodes, whose lists are sorted by label. The rows of the result are pairs of a label and
/// a src node.
LabelledEdges reversed(const LabelledEdges& edges);
/// The same by libtorch's operations on any device.
LabelledEdges reversed_by_torch(const LabelledEdges& edges);
/// The edges of `neighbors`, which go to rows instead of dst nodes.
LabelledEdges edges_of(const RelationRows& rows, int num_labels);

/// [rows] the label of each row, int32; rows behind the last label have the number of labels.
at::Tensor labels_of(const RelationRows& rows);
/// [rows] values[v] of the dst node v of each row; rows that nothing belongs to have that of any node.
at::Tensor values_of_rows(const at::Tensor& values, const RelationRows& rows);

/// The sum over a block of `rows`, in the type of x or in another.
at::Tensor sum_over(const at::Tensor& x, const sampling::Block& block,
                    const std::shared_ptr<const RelationRows>& rows);
at::Tensor sum_over(at::ScalarType type, const at::Tensor& x, const sampling::Block& block,
                    const std::shared_ptr<const RelationRows>& rows);
/// The means of the rows' neighbors, [rows, cols] of this type.
at::Tensor mean_of_neighbors(at::ScalarType type, const at::Tensor& x,
                             const std::shared_ptr<const RelationRows>& rows);

/// [num_src] i64 the original ids of a block's nodes, in the block's memory.
at::Tensor original_ids_of(const sampling::Block& block);

/// Finds the relations of edges and the types of nodes, by the ranges of their ids. An owner of their
/// offsets on the device that asks.
class TypeRanges {
 public:
  explicit TypeRanges(const graph::GraphTypes& types);

  /// The edges of a block with their relations. Throws Error for a block of several relations without edge
  /// ids.
  LabelledEdges relations(const sampling::Block& block) const;
  /// An edge from each dst node to itself with its type as label: its rows are the dst nodes, by type.
  LabelledEdges types_of_dst(const sampling::Block& block) const;

  int num_types() const { return num_types_; }
  int num_relations() const { return num_relations_; }

 private:
  struct Ends {
    at::Tensor host;               ///< i64 [labels]; undefined: a single one
    mutable at::Tensor on_device;  ///< the same on the device that asked last
  };
  static Ends ends_of(const std::vector<std::int64_t>& offsets);
  static at::Tensor labels(const Ends& ends, const std::int64_t* ids, Count count,
                           const sampling::Block& block);

  int num_types_, num_relations_;
  Ends node_ends_, edge_ends_;
};

}  // namespace strata::nn
