// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "layers/init.hpp"
#include "layers/layers.hpp"
#include "layers/op_support.hpp"
#include "layers/ops.hpp"

namespace strata::nn {
namespace {

/// PyG's GCNConv: the sum over in-neighbors and the node itself of x_u / sqrt(d(u) d(v)), d = in-degree + 1,
/// mapped by lin. In-degrees count no self-loops: a loop that the graph has is replaced, not added to.
///
/// A sampled neighborhood represents the whole one, so its part is scaled by in-degree / sampled
/// in-neighbors.
struct GcnLayer : torch::nn::Module {
  GcnLayer(std::int64_t in_cols, std::int64_t out_cols, std::uint64_t seed, int layer) {
    const double bound = std::sqrt(6.0 / static_cast<double>(in_cols + out_cols));  // Glorot
    lin = register_module(
        "lin", std::make_shared<Linear>(
                   keyed_uniform({out_cols, in_cols}, bound, {.seed = seed, .layer = layer, .index = 0}),
                   at::Tensor()));
    bias = register_parameter("bias", at::zeros({out_cols}));
  }
  std::shared_ptr<Linear> lin;
  at::Tensor bias;
};

class GcnModel final : public StackedModel {
 public:
  explicit GcnModel(const ModelOptions& options) : StackedModel(options) {
    for (int i = 0; i < num_layers(); ++i) {
      layers_.push_back(std::make_shared<GcnLayer>(input_cols(i), output_cols(i), options.seed, i));
    }
    register_layers({layers_.begin(), layers_.end()});
  }

  ModelTraits traits() const override {
    ModelTraits traits = StackedModel::traits();
    traits.needs_in_degrees = true;
    return traits;
  }

  /// The state is [1, cols + 1]: the sum so far, and the weights of the edges without loops.
  at::Tensor add_piece(int, const at::Tensor& before, const NeighborPiece& piece) override {
    const at::Tensor sum = sum_of_piece(piece.x, piece.block).to(at::kDouble);
    const at::Tensor now = at::cat({sum, neighbor_weights(piece.block).view({1, 1})}, 1);
    return before.defined() ? before.add(now) : now;
  }
  at::Tensor finish_pieces(int layer, const at::Tensor& state, const NeighborPiece& own) override {
    if (!state.defined()) return output_alone(layer, own);
    const std::int64_t cols = state.size(1) - 1;
    const double neighbors = state[0][cols].item<double>();
    if (neighbors == 0) return output_alone(layer, own);
    return output_from(layer, state.narrow(1, 0, cols).div(neighbors).to(at::kFloat), own);
  }

  std::int64_t projected_cols(int layer) const override { return output_cols(layer); }
  at::Tensor project(int layer, const at::Tensor& x) override {
    return map_rows(at::kFloat, x, at_layer(layer).lin->weight);
  }

 private:
  at::Tensor convolve(int layer, const at::Tensor& x, const sampling::Block& block,
                      const Pass& pass) override {
    const at::ScalarType type = type_of(pass);
    const at::Tensor& weight = at_layer(layer).lin->weight;
    if (maps_first(input_cols(layer), output_cols(layer), x, block))
      return sum_projected(layer, map_rows(type, x, weight), block);
    return map_rows(type, aggregate_to(type, x, block, gcn_scales(block)), weight);
  }

  at::Tensor sum_projected(int, const at::Tensor& projected, const sampling::Block& block) override {
    return aggregate(projected, block, gcn_scales(block));
  }

  at::Tensor sum_of_piece(const at::Tensor& x, const sampling::Block& piece) const override {
    return aggregate(x, piece, {.row = {}, .col = gcn_scales(piece).col, .self = {}, .skips_loops = true});
  }

  /// The sum over the edges, without loops, of a block of one dst node. f64.
  static at::Tensor neighbor_weights(const sampling::Block& piece) {
    const at::TensorOptions options = options_of(piece);
    const at::Tensor indices = at::from_blob(const_cast<std::int32_t*>(piece.indices), {piece.num_edges},
                                             options.dtype(at::kInt)),
                     wanted = indices.ne(0).to(at::kDouble);
    if (piece.edge_weights == nullptr) return wanted.sum();
    return at::from_blob(const_cast<float*>(piece.edge_weights), {piece.num_edges}, options)
        .to(at::kDouble)
        .mul(wanted)
        .sum();
  }

  const at::Tensor& bias(int layer) const override { return at_layer(layer).bias; }
  const GcnLayer& at_layer(int layer) const { return *layers_[static_cast<std::size_t>(layer)]; }

  std::vector<std::shared_ptr<GcnLayer>> layers_;
};

}  // namespace

std::shared_ptr<BlockModel> make_gcn(const ModelOptions& options) {
  return std::make_shared<GcnModel>(options);
}

}  // namespace strata::nn
