// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/einsum.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "layers/edge_attention.hpp"
#include "layers/op_support.hpp"
#include "layers/relation_model.hpp"
#include "strata/nn/grouped_product.hpp"
#include "strata/util/error.hpp"

namespace strata::nn {
namespace {

using sampling::Block;

/// PyG's GATConv of a relation, without self-loops: one map for both ends of an edge.
struct RelationGat : torch::nn::Module {
  struct Shape {
    std::int64_t in_cols, heads, head_cols, out_cols;
  };
  RelationGat(const Shape& shape, std::uint64_t seed, int layer, int first_index) {
    const auto values = [&](at::IntArrayRef sizes, std::int64_t both, int index) {
      return glorot(sizes, both, {.seed = seed, .layer = layer, .index = first_index + index});
    };
    const std::int64_t mapped = shape.heads * shape.head_cols;
    const auto attention = [&](int index) {
      return values({1, shape.heads, shape.head_cols}, shape.heads + shape.head_cols, index);
    };
    src_weights = register_parameter("att_src", attention(1));
    dst_weights = register_parameter("att_dst", attention(2));
    bias = register_parameter("bias", at::zeros({shape.out_cols}));
    lin = register_module(
        "lin",
        std::make_shared<Linear>(values({mapped, shape.in_cols}, mapped + shape.in_cols, 0), at::Tensor()));
  }
  at::Tensor src_weights, dst_weights, bias;
  std::shared_ptr<Linear> lin;
};

/// PyG's HeteroConv of a GATConv for each relation, summed: a softmax is over the neighbors of one relation.
/// Heads are concatenated, or averaged in the last layer.
class RgatModel final : public RelationModel {
 public:
  explicit RgatModel(const ModelOptions& options) : RelationModel(options, options.layers()) {
    const std::vector<graph::EdgeType>& relations = options.types.edges;
    std::vector<std::shared_ptr<torch::nn::Module>> layers;
    for (int i = 0; i < num_layers(); ++i) {
      const std::int64_t heads = options.heads_of(i);
      const RelationGat::Shape shape{.in_cols = input_cols(i),
                                     .heads = heads,
                                     .head_cols = is_last(i) ? output_cols(i) : output_cols(i) / heads,
                                     .out_cols = output_cols(i)};
      std::vector<std::shared_ptr<RelationGat>> convs;
      for (std::size_t r = 0; r < relations.size(); ++r)
        convs.push_back(std::make_shared<RelationGat>(shape, options.seed, i, parameter_index(r, 3, 0)));
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
    const Maps maps = maps_of(layer);
    // Attention is f32, as are its scores: a softmax needs it.
    const at::Tensor rows_in = x.to(at::kFloat);
    const auto rows = make_relation_rows(ranges().relations(block), {.transpose = needs_gradient(x)});
    const at::Tensor of_edges = sum_over(rows_in, rows->edges, rows);
    const at::Tensor of_rows = sum_over(rows_in.narrow(0, 0, block.num_dst), reversed(rows->nodes), rows);
    const at::Tensor attended = attend_over_rows(
        {.rows = grouped_product(of_edges, maps.lin, rows->edge_ends),
         .src_scores = grouped_product(of_edges, maps.src, rows->edge_ends),
         .dst_scores = grouped_product(of_rows, maps.dst, rows->ends)},
        {.block = rows->of_rows, .keep_alive = rows, .heads = heads_of(layer), .slope = kLeakySlope});
    const at::Tensor sum = sum_over(attended, rows->nodes, rows);
    const at::Tensor heads =
        is_last(layer) ? sum.view({block.num_dst, heads_of(layer), output_cols(layer)}).mean(1) : sum;
    return add_by_type(heads, sum_into_types(maps.bias), block).to(type_of(pass));
  }

  const at::Tensor& bias(int) const override { return none_; }
  std::int64_t heads_of(int layer) const { return options().heads_of(layer); }

  std::vector<std::vector<std::shared_ptr<RelationGat>>> layers_;
  at::Tensor none_;  // biases are those of relations
};

}  // namespace

std::shared_ptr<BlockModel> make_rgat(const ModelOptions& options) {
  if (options.heads.size() != 1 && options.heads.size() != at(options.num_layers))
    throw InputError(
        fmt::format("{} numbers of heads for {} layers", options.heads.size(), options.num_layers),
        "Give one number, or one per layer.");
  for (int layer = 0; layer < options.num_layers; ++layer) {
    const int heads = options.heads_of(layer);
    if (heads < 1 || (layer + 1 < options.num_layers && options.hidden % heads != 0))
      throw InputError(
          fmt::format("{} hidden columns cannot be divided among {} attention heads", options.hidden, heads),
          "Choose a width of the hidden layers that is a multiple of the heads.");
  }
  return std::make_shared<RgatModel>(options);
}

}  // namespace strata::nn
