// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <vector>

#include "strata/nn/model.hpp"

/// What the models share: their shape, and parameters under PyG's names.
namespace strata::nn {

/// Has `weight` and, unless it is undefined, `bias`.
struct Linear : torch::nn::Module {
  Linear(at::Tensor initial_weight, at::Tensor initial_bias);
  at::Tensor weight, bias;
};

/// A model of equal layers `convs.{i}` with ReLU and dropout between them.
class StackedModel : public BlockModel {
 public:
  explicit StackedModel(const ModelOptions& options);

  int num_layers() const override { return options_.num_layers; }
  ModelTraits traits() const override {
    return {.tolerates_padding = true, .takes_edge_weights = true, .takes_pieces = true};
  }
  std::int64_t output_cols(int layer) const override {
    return is_last(layer) ? options_.out_cols : options_.hidden;
  }
  at::Tensor forward_layer(int layer, const at::Tensor& x, const sampling::Block& block,
                           const Pass& pass) final;
  at::Tensor combine(int layer, const at::Tensor& projected, const sampling::Block& block) final;
  /// The sum over the in-neighbors so far, in f64, for layers that are a function of it.
  at::Tensor add_piece(int layer, const at::Tensor& before, const NeighborPiece& piece) override;
  at::Tensor finish_pieces(int layer, const at::Tensor& state, const NeighborPiece& own) override;

 protected:
  /// The sum over a piece, [1, cols], which add_piece() adds up.
  virtual at::Tensor sum_of_piece(const at::Tensor& x, const sampling::Block& piece) const;
  /// The output of a dst node with one in-neighbor, whose row `stand_in` replaces all of them.
  at::Tensor output_from(int layer, const at::Tensor& stand_in, const NeighborPiece& own);
  /// The output of a dst node without in-neighbors.
  at::Tensor output_alone(int layer, const NeighborPiece& own);
  /// The layer without its bias.
  virtual at::Tensor convolve(int layer, const at::Tensor& x, const sampling::Block& block,
                              const Pass& pass) = 0;
  /// The same for rows that project() returned, outside training.
  virtual at::Tensor sum_projected(int layer, const at::Tensor& projected, const sampling::Block& block);
  virtual const at::Tensor& bias(int layer) const = 0;
  /// The input rows as a fused stack reads them: after dropout, contiguous.
  at::Tensor stack_rows(const at::Tensor& x, const sampling::Block& block, const Pass& pass) const;
  static InputTable table_of(const at::Tensor& rows) {
    return {.rows = rows.const_data_ptr<float>(), .cols = rows.size(1), .pitch = rows.size(1)};
  }
  /// Applies bias, activation and dropout, in place.
  at::Tensor finish(int layer, const at::Tensor& z, const sampling::Block& block, const Pass& pass) const;

  std::int64_t input_cols(int layer) const { return layer == 0 ? options_.in_cols : options_.hidden; }
  bool is_last(int layer) const { return layer + 1 == options_.num_layers; }
  int hop_of_dst(int layer) const { return options_.num_layers - 1 - layer; }  ///< counted from the seeds
  const ModelOptions& options() const { return options_; }
  /// The type of activations and matrix products.
  at::ScalarType type_of(const Pass& pass) const {
    return options_.bf16 && pass.training ? at::kBFloat16 : at::kFloat;
  }
  /// Registers the modules of the layers as convs.0, convs.1 and so on....
  void register_layers(const std::vector<std::shared_ptr<torch::nn::Module>>& layers);

 private:
  ModelOptions options_;
};

/// Whether it is less work to map all src rows first and sum the shorter results. False if a gradient is
/// needed and cannot pass back.
bool maps_first(std::int64_t in_cols, std::int64_t out_cols, const at::Tensor& x,
                const sampling::Block& block);

std::shared_ptr<BlockModel> make_sage(const ModelOptions& options);
std::shared_ptr<BlockModel> make_sage_max(const ModelOptions& options);
std::shared_ptr<BlockModel> make_gcn(const ModelOptions& options);
std::shared_ptr<BlockModel> make_gat(const ModelOptions& options);
std::shared_ptr<BlockModel> make_gin(const ModelOptions& options);

}  // namespace strata::nn
