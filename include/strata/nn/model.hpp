// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "strata/graph/graph.hpp"
#include "strata/nn/kinds.hpp"
#include "strata/sampling/block.hpp"
#include "strata/util/random.hpp"
#include "strata/util/types.hpp"

namespace strata::nn {

/// The purpose of a forward pass.
struct Pass {
  BatchKey key;           ///< keys dropout
  bool training = false;  ///< dropout on
  /// Replaces `key`, on the blocks' device, so that a recorded CUDA graph serves every batch.
  const BatchKey* device_key = nullptr;
};

/// The numbers of columns of a layer's rows.
struct LayerCols {
  std::int64_t output = 0;
  /// Columns of the rows that the layer computes from the src nodes' rows before it sums; 0: it sums those
  /// rows themselves. Evaluation makes its chunks accordingly.
  std::int64_t mapped = 0;
  std::int64_t projected = 0;  ///< columns that BlockModel::project() returns; 0: the layer cannot project
};

/// The input of a layer in exact evaluation.
struct ExactInput {
  at::Tensor rows;         ///< [block.num_src, cols] of the src nodes
  bool projected = false;  ///< `rows` come from BlockModel::project()
  sampling::Block block;
  /// [block.num_dst, cols] of the dst nodes, for ModelTraits::takes_dst_apart; undefined: `rows` begin with
  /// them. The block then has only counts, indptr, indices and weights.
  at::Tensor own = {};

  struct Piece {
    at::Tensor before = {};  ///< what evaluate() returned for the piece before; undefined for the first piece
    bool last = false;
  };
  /// Set, for ModelTraits::takes_pieces, if the block is a piece of one dst node's list, without edges of
  /// weight 0.
  std::optional<Piece> piece = {};
};

/// Abilities of a model beyond a forward pass, and needs for one. The defaults suit every model.
struct ModelTraits {
  /// Layers read the rows of neighbors.
  bool reads_neighbors = true;
  /// Layers read Block::src_in_degrees.
  bool needs_in_degrees = false;
  /// The gradient of the input layer's parameters passes through its block's transpose, as it does where
  /// every src node's row is mapped first.
  bool needs_input_transpose = false;
  /// Layers read Block::edge_ids and, of dst nodes, Block::src_original_ids, which say of what type an edge or
  /// a node is (ModelOptions::types).
  bool needs_types = false;
  /// The gradient of a layer's input passes through its block's transpose.
  bool needs_transpose = true;
  /// A batch may be padded: it may have more nodes than were sampled, without edges, whose finite rows count
  /// for nothing. Shapes are then the same for every batch, and a step is recorded as a CUDA graph. Not for
  /// layers that take statistics over rows (batch norm), nor for layers that wait for the device.
  bool tolerates_padding = false;
  /// Blocks may have a stride (Block::stride).
  bool takes_strided = false;
  /// A training pass's forward() may get the rows of all nodes, which layer 0 reads by global ids
  /// (Block::global_indices).
  bool reads_table = false;
  /// Dst nodes' own rows may come apart from the src nodes' rows (ExactInput::own), as in PyG's bipartite
  /// input. Exact evaluation on the cpu then needs no copy of the neighbors' rows: a layer sums them in
  /// place, in the table of all nodes.
  bool takes_dst_apart = false;
  /// Layers outside training read Block::edge_weights. Exact evaluation of a run that samples by weight needs
  /// it.
  bool takes_edge_weights = false;
  /// A dst node's in-neighbors may come piece by piece (ExactInput::piece). Exact evaluation then reads the
  /// rows of a hub's neighbors within a bounded buffer.
  bool takes_pieces = false;
};

/// A model over Blocks: any torch::nn::Module that can be applied layer by layer. Layer 0 reads the input
/// features. Only forward_layer() must be overridden.
///
/// A model has as many layers as the minibatch has blocks. Evaluation applies one layer to all nodes before
/// the next, so a layer must depend only on its block.
class BlockModel : public torch::nn::Module {
 public:
  explicit BlockModel(std::vector<LayerCols> layers) : layers_(std::move(layers)) {}

  int num_layers() const { return static_cast<int>(layers_.size()); }
  const std::vector<LayerCols>& layers() const { return layers_; }
  const LayerCols& cols(int layer) const { return layers_[at(layer)]; }
  std::int64_t output_cols(int layer) const { return cols(layer).output; }
  virtual ModelTraits traits() const { return {}; }

  /// x [block.num_src, cols] f32 on the block's device  ->  [block.num_dst, output_cols(layer)]. Includes the
  /// activation and dropout that follow the layer. Differentiable; the gradient of x is computed only if x
  /// requires it, and then needs the block's transpose.
  virtual at::Tensor forward_layer(int layer, const at::Tensor& x, const sampling::Block& block,
                                   const Pass& pass) = 0;

  /// Applies all layers, blocks.front() first. x has the rows of the batch's input nodes, or those of all
  /// nodes (ModelTraits::reads_table); a row's elements follow each other.
  virtual at::Tensor forward(at::Tensor x, const sampling::MiniBatch& batch, const Pass& pass);

  /// Maps each row by itself: x [rows, cols] f32 -> [rows, cols(layer).projected]. A layer that is linear up to
  /// its sum over the neighbors can map first and sum the mapped rows. Exact evaluation keeps the mapped rows
  /// of all nodes if they are shorter than the layer's input.
  virtual at::Tensor project(int layer, const at::Tensor& x);

  /// Returns what forward_layer() returns outside training, up to rounding, for any input that the model's
  /// traits and projected columns allow. The default is forward_layer(). If a list comes in pieces, each but
  /// the last returns a state of the model's own, which the next one gets as Piece::before; the last returns
  /// the output for the whole list.
  virtual at::Tensor evaluate(int layer, const ExactInput& input);

 private:
  std::vector<LayerCols> layers_;
};

struct ModelOptions {
  ModelKind kind = ModelKind::sage;
  Aggregate aggregate = Aggregate::mean;  ///< how sage combines neighbors' rows
  std::int64_t in_cols = 0, hidden = 256, out_cols = 0;
  int num_layers = 2;
  /// Attention heads of gat, rgat and hgt: one number for all layers, or one per layer. They are concatenated in hidden
  /// layers, averaged in the last.
  std::vector<int> heads = {4};
  bool residual = false;           ///< of gat: a linear map of a node's own row is added to each layer
  double attention_dropout = 0.0;  ///< of the weights of gat, rgat and hgt
  double dropout = 0.5;            ///< after each hidden layer's activation
  double input_dropout = 0.0;      ///< of the input features
  /// Training passes keep activations and compute matrix products in bf16. Weights, their gradients, sums
  /// over neighbors, logits and all of evaluation stay f32.
  bool bf16 = false;
  std::uint64_t seed = 0;        ///< of the initial weights, which are the same on every rank and device
  graph::GraphTypes types = {};  ///< of the graph, for models that take several types
  int num_bases =
      0;  ///< of rgcn: matrices that relations combine to weights; 0: each has a matrix of its own

  int heads_of(int layer) const { return heads.size() == 1 ? heads.front() : heads[at(layer)]; }
  /// `hidden` columns after each layer but the last, which has out_cols.
  std::vector<LayerCols> layers() const {
    std::vector<LayerCols> cols(at(num_layers), LayerCols{.output = hidden});
    cols.back().output = out_cols;
    return cols;
  }
};

/// Makes one of Strata's own models. Throws InputError for options that no model can have.
std::shared_ptr<BlockModel> make_model(const ModelOptions& options);

}  // namespace strata::nn
