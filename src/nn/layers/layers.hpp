// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <vector>

#include "layers/ops.hpp"
#include "strata/nn/model.hpp"

/// What the models share: their shape, and parameters under PyG's names.
namespace strata::nn {

/// Has `weight` and, unless it is undefined, `bias`.
struct Linear : torch::nn::Module {
  Linear(at::Tensor initial_weight, at::Tensor initial_bias);
  at::Tensor weight, bias;
};

/// Throws InputError unless there is one number of attention heads, or one per layer, and those of the first
/// `dividing` layers divide the hidden columns.
void check_heads(const ModelOptions& options, int dividing);

/// A model of equal layers `convs.{i}` with ReLU and dropout between them.
class StackedModel : public BlockModel {
 public:
  explicit StackedModel(const ModelOptions& options) : StackedModel(options, options.layers()) {}
  StackedModel(const ModelOptions& options, std::vector<LayerCols> layers)
      : BlockModel(std::move(layers)), options_(options) {}

  ModelTraits traits() const override { return traits_; }
  at::Tensor forward_layer(int layer, const at::Tensor& x, const sampling::Block& block,
                           const Pass& pass) final;
  at::Tensor evaluate(int layer, const ExactInput& input) override;

 protected:
  /// Returns the state after a piece: [1, cols + 1] f64, the sum of the in-neighbors so far, which the layer
  /// is a function of, and of their weights.
  virtual at::Tensor add_piece(int layer, const ExactInput& input) const;
  /// The output of the dst node that `input` is the last piece of.
  virtual at::Tensor finish_pieces(int layer, const at::Tensor& state, const ExactInput& input);
  virtual BlockScales scales_of_piece(const sampling::Block&) const { return {}; }
  /// The output of a dst node with one in-neighbor, whose row `stand_in` replaces all of them.
  at::Tensor output_from(int layer, const at::Tensor& stand_in, const ExactInput& input);
  /// The layer without its bias.
  virtual at::Tensor convolve(int layer, const at::Tensor& x, const sampling::Block& block,
                              const Pass& pass) = 0;
  /// The same for rows that project() returned, outside training.
  virtual at::Tensor sum_projected(int layer, const at::Tensor& projected, const sampling::Block& block);
  virtual const at::Tensor& bias(int layer) const = 0;
  /// The input rows as a fused stack reads them: those of all nodes, or those of the src nodes after dropout.
  at::Tensor stack_rows(const at::Tensor& x, const sampling::Block& block, const Pass& pass) const;
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

  ModelTraits traits_ = {.tolerates_padding = true, .takes_edge_weights = true, .takes_pieces = true};

 private:
  ModelOptions options_;
};

/// Whether it is less work to map all src rows first and sum the shorter results. False if a gradient is
/// needed and cannot pass back.
bool maps_first(std::int64_t in_cols, std::int64_t out_cols, const at::Tensor& x,
                const sampling::Block& block);

/// The layers of the options, which project to `parts` times as many columns as their outputs have.
std::vector<LayerCols> projecting_layers(const ModelOptions& options, std::int64_t parts);

std::shared_ptr<BlockModel> make_sage(const ModelOptions& options);
std::shared_ptr<BlockModel> make_sage_max(const ModelOptions& options);
std::shared_ptr<BlockModel> make_gcn(const ModelOptions& options);
std::shared_ptr<BlockModel> make_gat(const ModelOptions& options);
std::shared_ptr<BlockModel> make_gin(const ModelOptions& options);
std::shared_ptr<BlockModel> make_rgcn(const ModelOptions& options);
std::shared_ptr<BlockModel> make_rsage(const ModelOptions& options);
std::shared_ptr<BlockModel> make_rgat(const ModelOptions& options);
std::shared_ptr<BlockModel> make_hgt(const ModelOptions& options);

}  // namespace strata::nn
