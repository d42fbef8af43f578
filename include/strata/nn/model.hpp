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

/// The purpose of a forward pass.
struct Pass {
  BatchKey key;           ///< keys dropout
  bool training = false;  ///< dropout on
  /// Replaces `key`, on the blocks' device, so that a recorded CUDA graph serves every batch.
  const BatchKey* device_key = nullptr;
};

/// The rows of all nodes where they lie, on the blocks' device: global id g has row g - first_node.
struct InputTable {
  const float* rows = nullptr;  ///< [.., cols], `pitch` floats from one to the next
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

/// Abilities of a model beyond a forward pass, and needs for one. The defaults suit every model.
struct ModelTraits {
  /// Layers read Block::src_in_degrees.
  bool needs_in_degrees = false;
  /// The gradient of the input layer's parameters passes through its block's transpose, as it does where
  /// every src node's row is mapped first.
  bool needs_input_transpose = false;
  /// A batch may be padded: it may have more nodes than were sampled, without edges, whose finite rows count
  /// for nothing. Shapes are then the same for every batch, and a step is recorded as a CUDA graph. Not for
  /// layers that take statistics over rows (batch norm), nor for layers that wait for the device.
  bool tolerates_padding = false;
  /// Blocks may have a stride (Block::stride).
  bool takes_strided = false;
  /// Layer 0 may read its rows from a table, by global ids (Block::global_indices), with forward_table().
  bool reads_table = false;
  /// A dst node's own row may come apart from the src nodes' rows, as in PyG's bipartite input, with
  /// forward_apart(). Exact evaluation on the cpu then needs no copy of the neighbors' rows: a layer sums
  /// them where they lie, in the table of all nodes.
  bool takes_dst_apart = false;
  /// Layers outside training read Block::edge_weights. Exact evaluation of a run that samples by weight needs
  /// it.
  bool takes_edge_weights = false;
  /// A dst node's in-neighbors may come piece by piece, with add_piece() and finish_pieces(). Exact
  /// evaluation then reads the rows of a hub's neighbors within a bounded buffer.
  bool takes_pieces = false;
};

/// A model over Blocks: any torch::nn::Module that can be applied layer by layer. Layer 0 reads the input
/// features.
///
/// A model has as many layers as the minibatch has blocks. Evaluation applies one layer to all nodes before
/// the next, so a layer must depend only on its block.
class BlockModel : public torch::nn::Module {
 public:
  virtual int num_layers() const = 0;
  virtual std::int64_t output_cols(int layer) const = 0;
  virtual ModelTraits traits() const { return {}; }
  /// Columns of the rows that a layer computes from the src nodes' rows before it sums: 0 where it sums those
  /// rows themselves. Evaluation makes its chunks accordingly.
  virtual std::int64_t mapped_cols(int /*layer*/) const { return 0; }

  /// x [block.num_src, cols] f32 on the block's device  ->  [block.num_dst, output_cols(layer)]. Includes the
  /// activation and dropout that follow the layer. Differentiable; the gradient of x is computed only if x
  /// requires it, and then needs the block's transpose.
  virtual at::Tensor forward_layer(int layer, const at::Tensor& x, const sampling::Block& block,
                                   const Pass& pass) = 0;

  /// Does forward() of a training pass that reads its input rows in place, for ModelTraits::reads_table.
  virtual at::Tensor forward_table(const InputTable& table, const sampling::MiniBatch& batch,
                                   const Pass& pass);

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

  /// Does forward_layer() without dropout, for ModelTraits::takes_dst_apart. x_src [block.num_src, cols] are
  /// the rows that block.indices name, x_dst [block.num_dst, cols] those of the dst nodes. The block has only
  /// counts, indptr (which may begin above 0) and indices.
  virtual at::Tensor forward_apart(int layer, const at::Tensor& x_src, const at::Tensor& x_dst,
                                   const sampling::Block& block);

  /// Returns a layer's state for a dst node after one more piece of its in-neighbors; `before` is undefined
  /// for the first piece. For ModelTraits::takes_pieces. With pieces p and q of a block,
  ///
  ///     state = add_piece(l, add_piece(l, {}, p), q)
  ///     finish_pieces(l, state, own) == forward_layer(l, x, block, ..)
  ///
  /// up to rounding, or == combine() of projected rows.
  virtual at::Tensor add_piece(int layer, const at::Tensor& before, const NeighborPiece& piece);
  /// The dst node's output [1, output_cols(layer)], with the activation that follows. `own` is a piece
  /// without edges; `state` is undefined if there was no piece.
  virtual at::Tensor finish_pieces(int layer, const at::Tensor& state, const NeighborPiece& own);

  /// Applies all layers, blocks.front() first.
  virtual at::Tensor forward(at::Tensor x, const sampling::MiniBatch& batch, const Pass& pass);
};

struct ModelOptions {
  ModelKind kind = ModelKind::sage;
  Aggregate aggregate = Aggregate::mean;  ///< how sage combines neighbors' rows
  std::int64_t in_cols = 0, hidden = 256, out_cols = 0;
  int num_layers = 2;
  /// Attention heads of gat: one number for all layers, or one per layer. They are concatenated in hidden
  /// layers, averaged in the last.
  std::vector<int> heads = {4};
  bool residual = false;           ///< of gat: a linear map of a node's own row is added to each layer
  double attention_dropout = 0.0;  ///< of gat's attention weights
  double dropout = 0.5;            ///< after each hidden layer's activation
  double input_dropout = 0.0;      ///< of the input features
  /// Training passes keep activations and compute matrix products in bf16. Weights, their gradients, sums
  /// over neighbors, logits and all of evaluation stay f32.
  bool bf16 = false;
  std::uint64_t seed = 0;  ///< of the initial weights, which are the same on every rank and device

  int heads_of(int layer) const {
    return heads.size() == 1 ? heads.front() : heads[static_cast<std::size_t>(layer)];
  }
};

/// Makes one of Strata's own models. Throws InputError for options that no model can have.
std::shared_ptr<BlockModel> make_model(const ModelOptions& options);

}  // namespace strata::nn
