// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/einsum.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "layers/gat_layer.hpp"
#include "layers/op_support.hpp"
#include "layers/relation_model.hpp"
#include "strata/nn/grouped_product.hpp"
#include "strata/util/error.hpp"

namespace strata::nn {
namespace {

using sampling::Block;

/// PyG's HeteroConv of a GATConv for each relation, without self-loops, summed: a softmax is over the neighbors
/// of one relation. Heads are concatenated, or averaged in the last layer.
class RgatModel final : public RelationModel {
 public:
  explicit RgatModel(const ModelOptions& options) : RelationModel(options, options.layers()) {
    const std::vector<graph::EdgeType>& relations = options.types.edges;
    std::vector<std::shared_ptr<torch::nn::Module>> layers;
    for (int i = 0; i < num_layers(); ++i) {
      const std::int64_t heads = options.heads_of(i);
      const GatLayer::Shape shape{.in_cols = input_cols(i),
                                  .heads = heads,
                                  .head_cols = is_last(i) ? output_cols(i) : output_cols(i) / heads,
                                  .out_cols = output_cols(i)};
      std::vector<std::shared_ptr<GatLayer>> convs;
      for (std::size_t r = 0; r < relations.size(); ++r)
        convs.push_back(std::make_shared<GatLayer>(shape, options.seed, i, parameter_index(r, 3, 0)));
      layers.push_back(std::make_shared<HeteroConv>(
          relations, std::vector<std::shared_ptr<torch::nn::Module>>(convs.begin(), convs.end())));
      layers_.push_back(std::move(convs));
    }
    register_layers(layers);
  }

 private:
  /// The parameters of a layer, one relation after the other.
  struct Maps {
    at::Tensor lin;       ///< [relations, in, heads * cols]
    at::Tensor src, dst;  ///< [relations, in, heads] from a row to its scores
    at::Tensor bias;      ///< [relations, out]
  };
  Maps maps_of(int layer) const {
    std::vector<at::Tensor> lin, src, dst, bias;
    for (const auto& conv : layers_[at(layer)]) {
      lin.push_back(conv->lin->weight);
      src.push_back(conv->src_weights[0]);
      dst.push_back(conv->dst_weights[0]);
      bias.push_back(conv->bias);
    }
    const at::Tensor maps = stack_maps(lin);
    const at::Tensor by_head = maps.unflatten(2, {heads_of(layer), -1});
    return {.lin = maps,
            .src = at::einsum("rihc,rhc->rih", {by_head, at::stack(src)}),
            .dst = at::einsum("rihc,rhc->rih", {by_head, at::stack(dst)}),
            .bias = at::stack(bias)};
  }

  at::Tensor convolve(int layer, const at::Tensor& x, const Block& block, const Pass& pass) override {
    const at::ScalarType type = type_of(pass);
    const Maps maps = maps_of(layer);
    const auto rows = make_relation_rows(ranges().relations(block), {.alignment = alignment(x, pass)});
    // A source is mapped once for each of its relations, and a destination only to its scores.
    const auto pairs = pairs_of(edges_of(*rows, ranges().num_relations()), x, pass);
    const at::Tensor of_pairs = sum_over(type, x, reversed(pairs->nodes), pairs);
    const at::Tensor of_rows = sum_over(type, x.narrow(0, 0, block.num_dst), reversed(rows->nodes), rows);
    const auto mapped = [type](const at::Tensor& in, const at::Tensor& by, const at::Tensor& ends) {
      return grouped_product(in, by.to(type), ends);
    };
    AttentionOver over = attention_from(pairs, layer, block, pass, rows.get());
    over.slope = kLeakySlope;
    const at::Tensor attended =
        attend_over_rows({.rows = mapped(of_pairs, maps.lin, pairs->ends),
                          .src_scores = mapped(of_pairs, maps.src, pairs->ends).to(at::kFloat),
                          .dst_scores = mapped(of_rows, maps.dst, rows->ends).to(at::kFloat)},
                         over);
    const at::Tensor sum = sum_over(attended, rows->nodes, rows);
    const at::Tensor heads =
        is_last(layer) ? sum.view({block.num_dst, heads_of(layer), output_cols(layer)}).mean(1) : sum;
    return add_by_type(heads, sum_into_types(maps.bias), block).to(type);
  }

  const at::Tensor& bias(int) const override { return none_; }
  std::int64_t heads_of(int layer) const { return options().heads_of(layer); }

  std::vector<std::vector<std::shared_ptr<GatLayer>>> layers_;
  at::Tensor none_;  // biases are those of relations
};

}  // namespace

std::shared_ptr<BlockModel> make_rgat(const ModelOptions& options) {
  check_heads(options, options.num_layers - 1);
  return std::make_shared<RgatModel>(options);
}

}  // namespace strata::nn
