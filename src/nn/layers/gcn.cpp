// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/zeros.h>

#include <cmath>

#include "layers/init.hpp"
#include "layers/layers.hpp"
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
  explicit GcnModel(const ModelOptions& options) : StackedModel(options, projecting_layers(options, 1)) {
    for (int i = 0; i < num_layers(); ++i) {
      layers_.push_back(std::make_shared<GcnLayer>(input_cols(i), output_cols(i), options.seed, i));
    }
    register_layers({layers_.begin(), layers_.end()});
    traits_.needs_in_degrees = true;
  }

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

  BlockScales scales_of_piece(const sampling::Block& piece) const override {
    return {.row = {}, .col = gcn_scales(piece).col, .self = {}, .skips_loops = true};
  }

  const at::Tensor& bias(int layer) const override { return at_layer(layer).bias; }
  const GcnLayer& at_layer(int layer) const { return *layers_[at(layer)]; }

  std::vector<std::shared_ptr<GcnLayer>> layers_;
};

}  // namespace

std::shared_ptr<BlockModel> make_gcn(const ModelOptions& options) {
  return std::make_shared<GcnModel>(options);
}

}  // namespace strata::nn
