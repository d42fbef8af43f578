// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <memory>
#include <vector>

#include "strata/nn/model_kind.hpp"
#include "strata/sampling/block.hpp"
#include "strata/util/random.hpp"

namespace strata::nn {

/// What a forward pass is for.
struct Pass {
  BatchKey key;           ///< keys dropout
  bool training = false;  ///< dropout on
  /// Replaces `key`, on the blocks' device, so that a recorded CUDA graph serves every batch.
  const BatchKey* device_key = nullptr;
};

/// The input rows of all nodes in place, on the blocks' device: the row of global id g is row g - first_node.
struct RowTable {
  const float* rows = nullptr;  ///< [.., cols]; rows begin `pitch` floats apart
  std::int64_t cols = 0, pitch = 0;
  NodeId first_node = 0;
};

/// Some of the in-neighbors of one dst node, outside training.
struct NeighborPiece {
  at::Tensor x;            ///< [block.num_src, cols] rows of the src nodes; the first is the dst node
  bool projected = false;  ///< x are rows from BlockModel::project(), not the layer's input
  sampling::Block block;   ///< of one dst node, without edges of weight 0
  Count num_edges = 0;     ///< in the dst node's whole list
};

/// A model over Blocks: a torch::nn::Module that can be applied layer by layer. Layer 0 reads the input
/// features.
///
/// A model has as many layers as the minibatch has blocks. Evaluation applies one layer to all nodes before
/// the next, so a layer must depend only on its block.
class BlockModel : public torch::nn::Module {
 public:
  virtual int num_layers() const = 0;
  virtual std::int64_t output_cols(int layer) const = 0;
  virtual bool needs_in_degrees() const { return false; }  ///< whether layers read Block::src_in_degrees
  /// Whether the gradient of the input layer's parameters needs its block's transpose, as it does if the
  /// layer first maps the row of every src node.
  virtual bool needs_input_transpose() const { return false; }
  /// Columns to which a layer maps every src node's row before it sums; 0 if it sums the rows themselves.
  /// Evaluation sizes its chunks accordingly.
  virtual std::int64_t mapped_cols(int /*layer*/) const { return 0; }

  /// x [block.num_src, cols] f32 on the block's device  ->  [block.num_dst, output_cols(layer)]. Includes the
  /// activation and dropout that follow the layer. Differentiable; the gradient of x is computed only if x
  /// requires it, and then needs the block's transpose.
  virtual at::Tensor forward_layer(int layer, const at::Tensor& x, const sampling::Block& block,
                                   const Pass& pass) = 0;

  /// Whether a batch may be padded with nodes that have no edges and whose finite rows count for nothing. All
  /// batches then have the same shape, and a step is recorded as a CUDA graph. Impossible for layers that
  /// compute statistics over rows (batch norm) or wait for the device.
  virtual bool tolerates_padding() const { return false; }
  /// Whether blocks may have a stride (Block::stride).
  virtual bool takes_strided() const { return false; }
  /// Whether layer 0 can read its rows from a table, by global ids (Block::global_indices). If so,
  /// forward_table() must be implemented.
  virtual bool reads_table() const { return false; }
  /// As forward(), for a training pass that reads its input rows in place.
  virtual at::Tensor forward_table(const RowTable& table, const sampling::MiniBatch& batch, const Pass& pass);

  /// A layer that is linear up to its sum over the neighbors can map each node's row first and then sum the
  /// mapped rows. Exact evaluation keeps the mapped rows of all nodes if they are shorter than the layer's
  /// input. Optional: 0 columns mean that the layer cannot; project() and combine() are then never called.
  ///
  ///     combine(l, project(l, x), block) == forward_layer(l, x, block, {.training = false})   up to rounding
  virtual std::int64_t projected_cols(int layer) const;
  /// x [rows, cols] f32 -> [rows, projected_cols(layer)], each row by itself.
  virtual at::Tensor project(int layer, const at::Tensor& x);
  /// projected [block.num_src, projected_cols(layer)] on the block's device -> [block.num_dst,
  /// output_cols(layer)], with the activation that follows.
  virtual at::Tensor combine(int layer, const at::Tensor& projected, const sampling::Block& block);

  /// Whether the dst nodes' own rows may be given separately from the src nodes' rows, as in PyG's bipartite
  /// input. Exact evaluation on the cpu then needs no copy of the neighbors' rows, because a layer sums them
  /// in place, in the table of all nodes. Optional.
  virtual bool takes_dst_apart() const { return false; }
  /// forward_layer() without dropout. x_src [block.num_src, cols] are the rows that block.indices name, x_dst
  /// [block.num_dst, cols] those of the dst nodes. The block has only its counts, indptr (which may begin
  /// above 0) and indices.
  virtual at::Tensor forward_apart(int layer, const at::Tensor& x_src, const at::Tensor& x_dst,
                                   const sampling::Block& block);

  /// Whether layers read Block::edge_weights outside training. Exact evaluation of a run that samples by
  /// weight needs it. Optional.
  virtual bool takes_edge_weights() const { return false; }

  /// Whether a dst node's in-neighbors may come piece by piece. Exact evaluation then reads the rows of a
  /// hub's neighbors through a bounded buffer. Optional.
  ///
  ///     finish_pieces(l, add_piece(l, add_piece(l, {}, p), q), own) == forward_layer(l, x, block of p and q,
  ///     ..)
  ///
  /// up to rounding, or combine() of projected rows.
  virtual bool takes_pieces() const { return false; }
  /// The state of a layer for one dst node after one more piece of its in-neighbors; `before` is undefined
  /// for the first piece.
  virtual at::Tensor add_piece(int layer, const at::Tensor& before, const NeighborPiece& piece);
  /// The dst node's output [1, output_cols(layer)], with the activation that follows. `own` is a piece
  /// without edges; `state` is undefined if there was no piece.
  virtual at::Tensor finish_pieces(int layer, const at::Tensor& state, const NeighborPiece& own);

  /// All layers, blocks.front() first.
  virtual at::Tensor forward(at::Tensor x, const sampling::MiniBatch& batch, const Pass& pass);
};

struct ModelOptions {
  ModelKind kind = ModelKind::sage;
  Aggregate aggregate = Aggregate::mean;  ///< of sage
  std::int64_t in_cols = 0, hidden = 256, out_cols = 0;
  int num_layers = 2;
  std::int64_t heads = 4;          ///< of gat: concatenated in hidden layers, averaged in the last
  double attention_dropout = 0.0;  ///< of gat's attention weights
  double dropout = 0.5;            ///< after each hidden layer's activation
  double input_dropout = 0.0;      ///< of the input features
  /// Training passes keep activations and compute matrix products in bf16. Weights, their gradients, sums
  /// over neighbors, logits and all of evaluation stay f32.
  bool bf16 = false;
  std::uint64_t seed = 0;  ///< of the initial weights, which are the same on every rank and device
};

/// Makes one of Strata's own models. Throws InputError for options that no model can have.
std::shared_ptr<BlockModel> make_model(const ModelOptions& options);

}  // namespace strata::nn
