// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>

#include "fused/gat_stack.hpp"
#include "layers/gat_layer.hpp"
#include "layers/init.hpp"
#include "layers/layers.hpp"
#include "layers/op_support.hpp"
#include "layers/ops.hpp"
#include "strata/util/error.hpp"

namespace strata::nn {
namespace {

using sampling::Block;

/// What a pass over the edges needs besides tensors.
struct Heads {
  Block block;
  std::int64_t heads = 1;
  DropoutRule dropout;
};

struct Scores {
  at::Tensor src, dst;  ///< [num_src, heads], [num_dst, heads]
};

at::Tensor head_dots(const at::Tensor& rows, Count count, const at::Tensor& weights, std::int64_t heads) {
  at::Tensor scores = at::empty({count, heads}, rows.options());
  attention_kernels_for(rows).head_dots({.num_rows = count,
                                         .heads = heads,
                                         .head_cols = rows.size(1) / heads,
                                         .rows = rows.const_data_ptr<float>(),
                                         .weights = weights.const_data_ptr<float>(),
                                         .scores = scores.mutable_data_ptr<float>()},
                                        stream_of(rows));
  return scores;
}

EdgeAttention attention_over(const Heads& on, const at::Tensor& rows, const Scores& scores) {
  const sampling::Block& block = on.block;
  return {.edges = {block.num_dst, block.indptr, block.indices},
          .out_edges = {block.num_src, block.transposed_indptr, block.transposed_indices},
          .num_src = block.num_src,
          .heads = on.heads,
          .head_cols = rows.size(1) / on.heads,
          .edge_weights = block.edge_weights,
          .rows = rows.const_data_ptr<float>(),
          .src_scores = scores.src.const_data_ptr<float>(),
          .dst_scores = scores.dst.const_data_ptr<float>(),
          .dropout = {.rule = on.dropout}};
}

/// The gradient of a head's weights: the sum over rows of a score's gradient times the row.
at::Tensor grad_of_weights(const at::Tensor& rows, const at::Tensor& grad_scores) {
  const std::int64_t count = grad_scores.size(0), heads = grad_scores.size(1);
  const at::Tensor by_head =
      rows.narrow(0, 0, count).view({count, heads, rows.size(1) / heads}).transpose(0, 1);
  return at::bmm(grad_scores.t().unsqueeze(1), by_head).transpose(0, 1);  // [1, heads, head_cols]
}

struct Attended {
  at::Tensor out;       ///< [num_dst, heads * head_cols]
  at::Tensor log_sums;  ///< [num_dst, heads] of the softmax' denominators
};

Attended attend_over(const Heads& on, const at::Tensor& rows, const Scores& scores) {
  const Attended attended{.out = at::empty({on.block.num_dst, rows.size(1)}, rows.options()),
                          .log_sums = at::empty({on.block.num_dst, on.heads}, rows.options())};
  attention_kernels_for(rows).forward({.over = attention_over(on, rows, scores),
                                       .log_sums = attended.log_sums.mutable_data_ptr<float>(),
                                       .out = attended.out.mutable_data_ptr<float>()},
                                      stream_of(rows));
  return attended;
}

struct GraphAttention : Function<GraphAttention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& rows, const at::Tensor& src_weights,
                            const at::Tensor& dst_weights, const Heads& on) {
    const Scores scores{head_dots(rows, on.block.num_src, src_weights, on.heads),
                        head_dots(rows, on.block.num_dst, dst_weights, on.heads)};
    const auto [out, log_sums] = attend_over(on, rows, scores);
    carry(context, on);
    context->save_for_backward({rows, src_weights, dst_weights, scores.src, scores.dst, log_sums});
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const Heads& on = carried<Heads>(context);
    if (on.block.transposed_indptr == nullptr) {
      throw Error("attention needs the transpose of its block for the gradient, which was not sampled");
    }
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &rows = saved[0], &src_weights = saved[1], &dst_weights = saved[2], &log_sums = saved[5];
    const Scores scores{saved[3], saved[4]}, grad{at::empty_like(scores.src), at::empty_like(scores.dst)};
    const at::Tensor grad_out = grads[0].contiguous(), grad_rows = at::empty_like(rows),
                     means = at::empty_like(scores.dst);
    attention_kernels_for(rows).backward({.over = attention_over(on, rows, scores),
                                          .log_sums = log_sums.const_data_ptr<float>(),
                                          .src_weights = src_weights.const_data_ptr<float>(),
                                          .dst_weights = dst_weights.const_data_ptr<float>(),
                                          .grad_out = grad_out.const_data_ptr<float>(),
                                          .means = means.mutable_data_ptr<float>(),
                                          .grad_src_scores = grad.src.mutable_data_ptr<float>(),
                                          .grad_dst_scores = grad.dst.mutable_data_ptr<float>(),
                                          .grad_rows = grad_rows.mutable_data_ptr<float>()},
                                         stream_of(rows));
    return {grad_rows, grad_of_weights(rows, grad.src), grad_of_weights(rows, grad.dst), {}};
  }
};

/// PyG's GATConv with self-loops, whose heads are concatenated, or averaged in the last layer.
class GatModel final : public StackedModel {
 public:
  explicit GatModel(const ModelOptions& options) : StackedModel(options, layers_of(options)) {
    for (int i = 0; i < num_layers(); ++i) {
      const GatLayer::Shape shape{.in_cols = input_cols(i),
                                  .heads = options.heads_of(i),
                                  .head_cols = mapped_cols(i) / options.heads_of(i),
                                  .out_cols = output_cols(i),
                                  .residual = options.residual};
      layers_.push_back(std::make_shared<GatLayer>(shape, options.seed, i));
    }
    register_layers({layers_.begin(), layers_.end()});
  }

  ModelTraits traits() const override {
    ModelTraits traits = traits_;
    // Where training sums before it maps, the input layer needs no gradient of its rows.
    const bool in_stack = trains_in_stack();
    traits.needs_input_transpose = !in_stack;
    traits.takes_strided = in_stack;
    traits.reads_table = in_stack && options().input_dropout == 0.0 && options().attention_dropout == 0.0;
    return traits;
  }

#if STRATA_WITH_CUDA
  at::Tensor forward(at::Tensor x, const sampling::MiniBatch& batch, const Pass& pass) override {
    if (!pass.training || x.requires_grad() || !trains_in_stack())
      return BlockModel::forward(std::move(x), batch, pass);
    const at::Tensor rows = stack_rows(x, batch.blocks.front(), pass);
    const GatStackOptions stack{.dropout = options().dropout,
                                .attention_dropout = options().attention_dropout,
                                .bf16 = options().bf16};
    return gat_stack(rows, weights(), batch, stack, pass);
  }
#endif

  at::Tensor project(int layer, const at::Tensor& x) override {
    const GatLayer& at = at_layer(layer);
    const at::Tensor mapped = x.mm(at.lin->weight.t());
    // With residual connections, what is added to the node's own output follows the mapped row.
    return at.res ? at::cat({mapped, x.mm(at.res->weight.t())}, 1) : mapped;
  }

 private:
  static std::vector<LayerCols> layers_of(const ModelOptions& options) {
    std::vector<LayerCols> layers = options.layers();
    for (LayerCols& layer : layers) {
      layer.mapped = &layer == &layers.back() ? options.heads.back() * layer.output : layer.output;
      layer.projected = layer.mapped + (options.residual ? layer.output : 0);
    }
    return layers;
  }
  std::int64_t mapped_cols(int layer) const { return cols(layer).mapped; }

  /// The state is [1, heads * head_cols + heads]: the attention's result so far, and the logarithms of the
  /// denominators.
  at::Tensor add_piece(int layer, const ExactInput& input) const override {
    const GatLayer& at = at_layer(layer);
    const std::int64_t cols = mapped_cols(layer), heads = heads_of(layer);
    const at::Tensor mapped = input.projected ? input.rows.narrow(1, 0, cols).contiguous()
                                              : map_rows(at::kFloat, input.rows, at.lin->weight);
    const Scores scores{head_dots(mapped, input.block.num_src, at.src_weights, heads),
                        head_dots(mapped, 1, at.dst_weights, heads)};
    constexpr double kNever = -1e30;  // the node itself was included with the first piece
    const at::Tensor& before = input.piece->before;
    if (before.defined()) scores.src.narrow(0, 0, 1).fill_(kNever);
    const Attended now = attend_over({.block = input.block, .heads = heads, .dropout = {}}, mapped, scores);
    if (!before.defined()) return at::cat({now.out, now.log_sums}, 1);
    const at::Tensor log_sums = at::logaddexp(before.narrow(1, cols, heads), now.log_sums),
                     share = now.log_sums.sub(log_sums).exp().repeat_interleave(cols / heads, 1);
    return at::cat({before.narrow(1, 0, cols).lerp(now.out, share), log_sums}, 1);
  }
  at::Tensor finish_pieces(int layer, const at::Tensor& state, const ExactInput& input) override {
    const at::Tensor sum = mean_if_last(layer, state.narrow(1, 0, mapped_cols(layer)).contiguous());
    return finish(
        layer,
        input.projected ? plus_projected(layer, sum, input.rows) : plus_own(layer, sum, input.rows, {}),
        input.block, {});
  }

  at::Tensor convolve(int layer, const at::Tensor& x, const Block& block, const Pass& pass) override {
    const DropoutRule rule = make_dropout(options().attention_dropout, pass, hop_of_dst(layer), block);
    // Attention itself is f32: a softmax needs it, and a second set of kernels is not needed.
    const at::Tensor mapped = map_rows(type_of(pass), x, at_layer(layer).lin->weight).to(at::kFloat);
    const Heads on{.block = block, .heads = heads_of(layer), .dropout = rule};
    return plus_own(layer, attend(layer, mapped, on), x, pass);
  }

  at::Tensor sum_projected(int layer, const at::Tensor& projected, const Block& block) override {
    const at::Tensor mapped = projected.narrow(1, 0, mapped_cols(layer)).contiguous();
    const Heads on{.block = block, .heads = heads_of(layer), .dropout = {}};
    return plus_projected(layer, attend(layer, mapped, on), projected);
  }

  /// Adds the residual connection of the dst nodes, whose rows x begins with, to their sums.
  at::Tensor plus_own(int layer, const at::Tensor& sums, const at::Tensor& x, const Pass& pass) const {
    const GatLayer& at = at_layer(layer);
    if (!at.res) return sums;
    const at::Tensor own = x.narrow(0, 0, sums.size(0));
    return sums.add(map_rows(type_of(pass), own, at.res->weight).to(at::kFloat));
  }
  /// The same where project() has mapped the rows.
  at::Tensor plus_projected(int layer, const at::Tensor& sums, const at::Tensor& projected) const {
    if (!options().residual) return sums;
    return sums.add(projected.narrow(0, 0, sums.size(0)).narrow(1, mapped_cols(layer), output_cols(layer)));
  }

  at::Tensor attend(int layer, const at::Tensor& mapped, const Heads& on) const {
    const GatLayer& at = at_layer(layer);
    return mean_if_last(layer, GraphAttention::apply(mapped, at.src_weights, at.dst_weights, on));
  }

  at::Tensor mean_if_last(int layer, const at::Tensor& heads) const {
    return is_last(layer) ? heads.view({heads.size(0), heads_of(layer), output_cols(layer)}).mean(1) : heads;
  }

#if STRATA_WITH_CUDA
  bool trains_in_stack() const {
    return at_layer(0).bias.is_cuda() && !options().residual &&
           gat_stack_pays({.in_cols = options().in_cols,
                           .hidden = mapped_cols(0),
                           .heads = *std::ranges::max_element(options().heads),
                           .num_layers = num_layers()});
  }
  std::vector<GatWeights> weights() const {
    std::vector<GatWeights> result;
    for (const auto& layer : layers_)
      result.push_back({layer->src_weights, layer->dst_weights, layer->lin->weight, layer->bias});
    return result;
  }
#else
  static bool trains_in_stack() { return false; }
#endif

  const at::Tensor& bias(int layer) const override { return at_layer(layer).bias; }
  std::int64_t heads_of(int layer) const { return options().heads_of(layer); }
  const GatLayer& at_layer(int layer) const { return *layers_[static_cast<std::size_t>(layer)]; }

  std::vector<std::shared_ptr<GatLayer>> layers_;
};

}  // namespace

GatLayer::GatLayer(const Shape& shape, std::uint64_t seed, int layer, int first_index) {
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
  lin = register_module("lin", std::make_shared<Linear>(
                                   values({mapped, shape.in_cols}, mapped + shape.in_cols, 0), at::Tensor()));
  if (!shape.residual) return;
  const at::Tensor own = values({shape.out_cols, shape.in_cols}, shape.out_cols + shape.in_cols, 3);
  res = register_module("res", std::make_shared<Linear>(own, at::Tensor()));
}

std::shared_ptr<BlockModel> make_gat(const ModelOptions& options) {
  check_heads(options, options.num_layers - 1);
  return std::make_shared<GatModel>(options);
}

}  // namespace strata::nn
