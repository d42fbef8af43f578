// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "layers/init.hpp"
#include "layers/layers.hpp"
#include "layers/op_support.hpp"
#include "layers/ops.hpp"
#include "strata/util/error.hpp"

namespace strata::nn {
namespace {

using sampling::Block;

/// The factor with which a sampled neighborhood represents the whole one: in-degree / sampled in-neighbors.
BlockScales whole_sums(const Block& block) {
  if (block.src_in_degrees == nullptr && block.num_src > 0) {
    throw Error("GIN needs the in-degrees of a block's nodes, which the sampler was not asked for");
  }
  const BlockScales mean = mean_scales(block);
  if (block.num_dst == 0) return mean;
  const at::Tensor degrees = at::from_blob(const_cast<std::int32_t*>(block.src_in_degrees), {block.num_dst},
                                           options_of(block).dtype(at::kInt));
  return {.row = mean.row.mul(degrees), .col = {}, .self = {}};
}

/// sum of x over the in-neighbors + (1 + eps) x of the node itself.
at::Tensor gin_sum(at::ScalarType type, const at::Tensor& x, const at::Tensor& eps, const Block& block) {
  return aggregate_to(type, x, block, whole_sums(block))
      .addcmul(x.narrow(0, 0, block.num_dst).to(type), eps.add(1).to(type));
}

/// PyG's GINConv with a learned eps and an MLP of two layers: nn(sum of x over the in-neighbors + (1 + eps)
/// x).
///
/// A sampled neighborhood represents the whole one, as in GCN.
struct GinLayer : torch::nn::Module {
  GinLayer(std::int64_t in_cols, std::int64_t out_cols, std::uint64_t seed, int layer) {
    eps = register_parameter("eps", at::zeros({1}));
    const auto mlp = register_module("nn", std::make_shared<torch::nn::Module>());
    const auto maps = mlp->register_module("lins", std::make_shared<torch::nn::Module>());
    const auto map = [&](int index, std::int64_t from) {
      const double bound = 1.0 / std::sqrt(static_cast<double>(from));  // Kaiming uniform with a = sqrt(5)
      const auto values = [&](at::IntArrayRef sizes, int part) {
        return keyed_uniform(sizes, bound, {.seed = seed, .layer = layer, .index = 2 * index + part});
      };
      return maps->register_module(
          std::to_string(index),
          std::make_shared<Linear>(values({out_cols, from}, 0), values({out_cols}, 1)));
    };
    first = map(0, in_cols);
    second = map(1, out_cols);
  }
  at::Tensor eps;
  std::shared_ptr<Linear> first, second;
};

class GinModel final : public StackedModel {
 public:
  explicit GinModel(const ModelOptions& options) : StackedModel(options, projecting_layers(options, 1)) {
    for (int i = 0; i < num_layers(); ++i) {
      layers_.push_back(std::make_shared<GinLayer>(input_cols(i), output_cols(i), options.seed, i));
    }
    register_layers({layers_.begin(), layers_.end()});
    traits_.needs_in_degrees = true;
  }

  at::Tensor project(int layer, const at::Tensor& x) override {
    return x.mm(at_layer(layer).first->weight.t());
  }

 private:
  at::Tensor convolve(int layer, const at::Tensor& x, const Block& block, const Pass& pass) override {
    const at::ScalarType type = type_of(pass);
    const GinLayer& at = at_layer(layer);
    if (maps_first(input_cols(layer), output_cols(layer), x, block))
      return map_again(layer, gin_sum(type, map_rows(type, x, at.first->weight), at.eps, block));
    return map_again(layer, map_rows(type, gin_sum(type, x, at.eps, block), at.first->weight));
  }

  at::Tensor sum_projected(int layer, const at::Tensor& projected, const Block& block) override {
    return map_again(layer, gin_sum(at::kFloat, projected, at_layer(layer).eps, block));
  }

  at::Tensor map_again(int layer, const at::Tensor& z) const {
    return map_rows(z.scalar_type(), bias_relu_dropout(z, at_layer(layer).first->bias, {}),
                    at_layer(layer).second->weight);
  }

  const at::Tensor& bias(int layer) const override { return at_layer(layer).second->bias; }
  const GinLayer& at_layer(int layer) const { return *layers_[static_cast<std::size_t>(layer)]; }

  std::vector<std::shared_ptr<GinLayer>> layers_;
};

}  // namespace

std::shared_ptr<BlockModel> make_gin(const ModelOptions& options) {
  return std::make_shared<GinModel>(options);
}

}  // namespace strata::nn
