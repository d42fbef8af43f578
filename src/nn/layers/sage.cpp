// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/cat.h>

#include "fused/sage_stack.hpp"
#include "layers/layers.hpp"
#include "layers/ops.hpp"
#include "layers/sage_layer.hpp"

namespace strata::nn {
namespace {

/// PyG's SAGEConv with mean aggregation: lin_l(mean of x over the in-neighbors) + lin_r(x of the node
/// itself).
class SageModel final : public StackedModel {
 public:
  /// A projected row has the part for the node's neighbors, then the part for the node itself.
  explicit SageModel(const ModelOptions& options) : StackedModel(options, projecting_layers(options, 2)) {
    for (int i = 0; i < num_layers(); ++i) {
      layers_.push_back(std::make_shared<SageLayer>(input_cols(i), output_cols(i), options.seed, i));
    }
    register_layers({layers_.begin(), layers_.end()});
    traits_.takes_strided = STRATA_WITH_CUDA;
    traits_.reads_table = STRATA_WITH_CUDA && options.input_dropout == 0.0;
    traits_.takes_dst_apart = true;
  }

  at::Tensor project(int layer, const at::Tensor& x) override {
    return x.mm(at::cat({at_layer(layer).neighbors->weight, at_layer(layer).root->weight}).t());
  }

#if STRATA_WITH_CUDA
  at::Tensor forward(at::Tensor x, const sampling::MiniBatch& batch, const Pass& pass) override {
    if (!pass.training || !x.is_cuda() || x.requires_grad())
      return BlockModel::forward(std::move(x), batch, pass);
    const at::Tensor rows = stack_rows(x, batch.blocks.front(), pass);
    return sage_stack(rows, weights(), batch, {.dropout = options().dropout, .bf16 = options().bf16}, pass);
  }
#endif

  at::Tensor evaluate(int layer, const ExactInput& input) override {
    if (!input.own.defined()) return StackedModel::evaluate(layer, input);
    const at::Tensor mean = aggregate(input.rows, input.block, mean_scales(input.block));
    const at::Tensor z = mean.mm(at_layer(layer).neighbors->weight.t());
    return finish(layer, z.addmm(input.own, at_layer(layer).root->weight.t()), input.block, {});
  }

 private:
  std::vector<SageWeights> weights() const {
    std::vector<SageWeights> result;
    for (const auto& layer : layers_)
      result.push_back({layer->neighbors->weight, layer->root->weight, layer->neighbors->bias});
    return result;
  }

  at::Tensor convolve(int layer, const at::Tensor& x, const sampling::Block& block,
                      const Pass& pass) override {
    const at::ScalarType type = type_of(pass);
    const at::Tensor& neighbors = at_layer(layer).neighbors->weight;
    const at::Tensor& root = at_layer(layer).root->weight;
    if (!maps_first(input_cols(layer), output_cols(layer), x, block))
      return sage_convolution(type, x, neighbors, root, block);
    const at::Tensor mapped = aggregate(map_rows(type, x, neighbors), block, mean_scales(block));
    return mapped.addmm(x.narrow(0, 0, block.num_dst).to(type), root.to(type).t());
  }

  at::Tensor sum_projected(int layer, const at::Tensor& projected, const sampling::Block& block) override {
    const std::int64_t cols = output_cols(layer);
    const at::Tensor mean = aggregate(projected.narrow(1, 0, cols), block, mean_scales(block));
    return mean.add(projected.narrow(0, 0, block.num_dst).narrow(1, cols, cols));
  }

  const at::Tensor& bias(int layer) const override { return at_layer(layer).neighbors->bias; }
  const SageLayer& at_layer(int layer) const { return *layers_[at(layer)]; }

  std::vector<std::shared_ptr<SageLayer>> layers_;
};

}  // namespace

std::shared_ptr<BlockModel> make_sage(const ModelOptions& options) {
  return std::make_shared<SageModel>(options);
}

}  // namespace strata::nn
