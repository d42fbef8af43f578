// SPDX-License-Identifier: Apache-2.0
#include "fused/gat_stack.hpp"

#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include "fused/gat_kernels.hpp"
#include "fused/stack_support.hpp"
#include "layers/ops.hpp"
#include "strata/util/error.hpp"

namespace strata::nn {
namespace {

using sampling::Block;

Count num_places(const Block& block) {
  return block.num_dst + (block.indptr != nullptr ? block.num_edges : block.num_dst * block.stride);
}

std::int64_t tail_of(at::ScalarType type) { return type == at::kBFloat16 ? kGatTail<Bf16> : kGatTail<float>; }

/// The rows that a layer reads: the table, or the output of the layer below.
struct LayerInput {
  const void* rows = nullptr;
  at::ScalarType type = at::kFloat;
  Count cols = 0, pitch = 0;
};

/// What the backward pass needs from a layer.
struct LayerTape {
  Block block;
  LayerInput input;
  std::int64_t heads = 1;
  GatWeights weights;
  bool last = false;
  DropoutRule attention_dropout;
  at::Tensor queries;               // [2, heads, in]
  at::Tensor raw_scores, log_sums;  // [places, heads], [dst, heads]
  at::Tensor sums;                  // [dst, heads * in + tail]
  at::Tensor map;     // map of `sums`: [heads, head_cols, in]; in the last layer [out, heads * in + tail]
  at::Tensor output;  // [dst, out] after ReLU and dropout; not in the last layer
  float scale = 1;    // of the output's dropout

  std::int64_t head_cols() const { return weights.weight.size(0) / heads; }
};

struct Tape {
  std::vector<LayerTape> layers;
  at::Tensor rows;  // keeps the input alive
};

struct StackInput {
  at::Tensor rows;
  sampling::MiniBatch batch;
  GatStackOptions options;
  Pass pass;
};

template <typename In>
GatInput<In> kernel_input(const LayerTape& layer) {
  const Block& block = layer.block;
  return {.num_dst = block.num_dst,
          .heads = layer.heads,
          .cols = layer.input.cols,
          .in = static_cast<const In*>(layer.input.rows),
          .in_pitch = layer.input.pitch,
          .edges = lists_of(block),
          .own_ids = block.global_indices ? block.src_nodes : nullptr,
          .queries = layer.queries.const_data_ptr<float>(),
          .dropout = layer.attention_dropout};
}

GatParameters parameters_of(const LayerTape& layer) {
  return {.heads = layer.heads,
          .head_cols = layer.head_cols(),
          .cols = layer.input.cols,
          .weight = layer.weights.weight.const_data_ptr<float>(),
          .attention_src = layer.weights.attention_src.const_data_ptr<float>(),
          .attention_dst = layer.weights.attention_dst.const_data_ptr<float>()};
}

template <typename In, typename Out>
void sum_as(const LayerTape& layer) {
  gat_forward(GatForward<In, Out>{.over = kernel_input<In>(layer),
                                  .raw_scores = layer.raw_scores.mutable_data_ptr<float>(),
                                  .log_sums = layer.log_sums.mutable_data_ptr<float>(),
                                  .out = mutable_elements<Out>(layer.sums)},
              stream_of(layer.sums));
}

/// [dst, heads * cols (+ tail)] as [heads, dst, cols].
at::Tensor by_head(const at::Tensor& rows, std::int64_t heads, std::int64_t cols) {
  return rows.narrow(1, 0, heads * cols).view({rows.size(0), heads, cols}).transpose(0, 1);
}

at::Tensor map_of(const LayerTape& layer, at::ScalarType type) {
  const std::int64_t heads = layer.heads, in = layer.input.cols;
  const at::Tensor weight = layer.weights.weight.view({heads, layer.head_cols(), in});
  if (!layer.last) return weight.to(type);
  const at::Tensor averaged =
      weight.transpose(0, 1).reshape({layer.head_cols(), heads * in}).div(static_cast<double>(heads));
  const at::Tensor &bias = layer.weights.bias,
                   none = at::zeros({bias.size(0), tail_of(type) - 1}, bias.options());
  return at::cat({averaged, bias.unsqueeze(1), none}, 1).to(type);
}

void sum_neighbors(LayerTape& layer, at::ScalarType type) {
  const at::TensorOptions options = options_of(layer.block);
  const std::int64_t heads = layer.heads, in = layer.input.cols;
  layer.queries = at::empty({2, heads, in}, options);
  gat_queries(parameters_of(layer), layer.queries.mutable_data_ptr<float>(), stream_of(layer.queries));
  layer.raw_scores = at::empty({num_places(layer.block), heads}, options);
  layer.log_sums = at::empty({layer.block.num_dst, heads}, options);
  layer.sums = at::empty({layer.block.num_dst, heads * in + tail_of(type)}, options.dtype(type));
  if (type == at::kFloat)
    sum_as<float, float>(layer);
  else if (layer.input.type == at::kFloat)
    sum_as<float, Bf16>(layer);
  else
    sum_as<Bf16, Bf16>(layer);
}

/// The layer's output before bias and activation; the last layer's includes the bias.
at::Tensor map_sums(LayerTape& layer, at::ScalarType type) {
  layer.map = map_of(layer, type);
  if (layer.last) return product_f32(layer.sums, layer.map.t());
  const std::int64_t cols = layer.head_cols();
  at::Tensor out = at::empty({layer.block.num_dst, layer.heads * cols}, layer.sums.options());
  at::Tensor heads = by_head(out, layer.heads, cols);
  at::bmm_out(heads, by_head(layer.sums, layer.heads, layer.input.cols), layer.map.transpose(1, 2));
  return out;
}

/// What the backward pass computes for a layer.
struct LayerGrads {
  at::Tensor pieces;   ///< of the queries
  at::Tensor grad_in;  ///< gradient of the layer below, before its activation; undefined for the first layer
};

template <typename In, typename T>
LayerGrads grads_as(const LayerTape& layer, const LayerTape* below, const at::Tensor& grad_sums) {
  const Block& block = layer.block;
  const std::int64_t cols = layer.input.cols;
  const Count num_pieces = gat_pieces(block.num_dst, cols);
  LayerGrads grads{.pieces = at::empty({num_pieces, 2, layer.heads, cols}, layer.queries.options()),
                   .grad_in = {}};
  GatBackward<In, T> pass{.over = kernel_input<In>(layer),
                          .raw_scores = layer.raw_scores.const_data_ptr<float>(),
                          .log_sums = layer.log_sums.const_data_ptr<float>(),
                          .out = elements<T>(layer.sums),
                          .grad_out = elements<T>(grad_sums),
                          .num_pieces = num_pieces,
                          .grad_queries = grads.pieces.mutable_data_ptr<float>()};
  if (below == nullptr) {
    gat_backward(pass, stream_of(grad_sums));
    return grads;
  }
  if (block.transposed_indptr == nullptr) {
    throw Error("the gradient of a layer's input needs the transpose of its block, which was not sampled");
  }
  grads.grad_in = at::empty({block.num_src, cols}, grad_sums.options());
  const at::Tensor edge_grads = at::empty({num_places(block), cols}, grad_sums.options());
  pass.grad_in = mutable_elements<T>(grads.grad_in);
  pass.edge_grads = mutable_elements<T>(edge_grads);
  pass.transposed_indptr = block.transposed_indptr;
  pass.scale = below->scale;
  gat_backward(pass, stream_of(grad_sums));
  gat_input_grad(GatInputGrad<T>{.num_src = block.num_src,
                                 .num_dst = block.num_dst,
                                 .cols = cols,
                                 .transposed_indptr = block.transposed_indptr,
                                 .transposed_indices = block.transposed_indices,
                                 .edges = lists_of(block),
                                 .edge_grads = elements<T>(edge_grads),
                                 .grad_in = mutable_elements<T>(grads.grad_in)},
                 stream_of(grad_sums));
  return grads;
}

LayerGrads grads_below(const LayerTape& layer, const LayerTape* below, const at::Tensor& grad_sums) {
  if (grad_sums.scalar_type() == at::kFloat) return grads_as<float, float>(layer, below, grad_sums);
  if (layer.input.type == at::kFloat) return grads_as<float, Bf16>(layer, below, grad_sums);
  return grads_as<Bf16, Bf16>(layer, below, grad_sums);
}

at::Tensor grad_of_sums(const LayerTape& layer, const at::Tensor& grad) {
  const std::int64_t heads = layer.heads, in = layer.input.cols;
  if (layer.last) return grad.mm(layer.map.narrow(1, 0, heads * in));
  at::Tensor result = at::empty({grad.size(0), heads * in}, grad.options());
  at::Tensor out = by_head(result, heads, in);
  at::bmm_out(out, by_head(grad, heads, layer.head_cols()), layer.map);
  return result;
}

GatWeights grads_of_parameters(const LayerTape& layer, const at::Tensor& grad, const at::Tensor& pieces) {
  const at::Tensor product = product_f32(grad.t(), layer.sums), scratch = at::empty_like(layer.queries);
  const GatWeights& of = layer.weights;
  GatWeights grads{at::empty_like(of.attention_src), at::empty_like(of.attention_dst),
                   at::empty_like(of.weight), at::empty_like(of.bias)};
  gat_parameter_grads({.of = parameters_of(layer),
                       .heads_averaged = layer.last,
                       .num_pieces = pieces.size(0),
                       .grad_queries = pieces.const_data_ptr<float>(),
                       .scratch = scratch.mutable_data_ptr<float>(),
                       .product = product.const_data_ptr<float>(),
                       .product_pitch = product.size(1),
                       .weight = grads.weight.mutable_data_ptr<float>(),
                       .attention_src = grads.attention_src.mutable_data_ptr<float>(),
                       .attention_dst = grads.attention_dst.mutable_data_ptr<float>(),
                       .bias = grads.bias.mutable_data_ptr<float>()},
                      stream_of(grad));
  return grads;
}

constexpr std::size_t kParametersPerLayer = 4;

struct GatStack : Function<GatStack> {
  static at::Tensor forward(AutogradContext* context, at::TensorList parameters, const StackInput& on) {
    const at::ScalarType type = on.options.bf16 ? at::kBFloat16 : at::kFloat;
    const auto& blocks = on.batch.blocks;
    LayerInput input{.rows = on.rows.const_data_ptr(), .cols = on.rows.size(1), .pitch = on.rows.stride(0)};
    Tape tape{.layers = {}, .rows = on.rows};
    at::Tensor out;
    for (std::size_t l = 0; l < blocks.size(); ++l) {
      const int hop = static_cast<int>(blocks.size() - 1 - l);  // of the dst nodes
      LayerTape& layer = tape.layers.emplace_back();
      layer.block = blocks[l];
      layer.input = input;
      const at::Tensor* own = &parameters[kParametersPerLayer * l];
      layer.weights = {own[0], own[1], own[2], own[3]};
      layer.heads = layer.weights.attention_src.size(1);
      layer.last = hop == 0;
      layer.attention_dropout = make_dropout(on.options.attention_dropout, on.pass, hop, blocks[l]);
      sum_neighbors(layer, type);
      out = map_sums(layer, type);
      if (layer.last) break;
      const DropoutRule rule = make_dropout(on.options.dropout, on.pass, hop, blocks[l]);
      activate_hidden(out, layer.weights.bias, rule);
      layer.output = out;
      layer.scale = rule.scale();
      input = {.rows = out.const_data_ptr(), .type = type, .cols = out.size(1), .pitch = out.size(1)};
    }
    carry(context, std::move(tape));
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const Tape& tape = carried<Tape>(context);
    // the last one is for the input, which has no gradient
    variable_list result(kParametersPerLayer * tape.layers.size() + 1);
    at::Tensor grad = grads[0].contiguous().to(tape.layers.back().sums.scalar_type());
    for (std::size_t l = tape.layers.size(); l-- > 0;) {
      const LayerTape& layer = tape.layers[l];
      const LayerGrads below =
          grads_below(layer, l == 0 ? nullptr : &tape.layers[l - 1], grad_of_sums(layer, grad));
      const GatWeights of = grads_of_parameters(layer, grad, below.pieces);
      const at::Tensor own[] = {of.attention_src, of.attention_dst, of.weight, of.bias};
      std::copy_n(own, kParametersPerLayer,
                  result.begin() + static_cast<std::ptrdiff_t>(kParametersPerLayer * l));
      grad = below.grad_in;
    }
    return result;
  }
};

}  // namespace

bool gat_stack_pays(const GatStackShape& shape) {
  // Elements moved per dst node of the input layer, with 5 in-neighbors and 3 src nodes each: 5 heads * in +
  // 12 in + 3 hidden here, and 6 in + 32 hidden if all src nodes are mapped. Deeper layers have more src
  // nodes per dst node.
  constexpr std::int64_t kMostSums = 4, kMostHeads = 8;
  const bool input_pays = shape.heads * shape.in_cols <= kMostSums * shape.hidden;
  return shape.heads <= kMostHeads && input_pays && gat_takes(shape.in_cols) &&
         (shape.num_layers == 1 || gat_takes(shape.hidden));
}

at::Tensor gat_stack(const at::Tensor& rows, const std::vector<GatWeights>& layers,
                     const sampling::MiniBatch& batch, const GatStackOptions& options, const Pass& pass) {
  if (batch.blocks.front().global_indices && options.attention_dropout > 0)
    throw Error(
        "attention dropout needs the original ids of all src nodes, which rows read in place do not have");
  variable_list parameters;
  for (const GatWeights& layer : layers)
    parameters.insert(parameters.end(), {layer.attention_src, layer.attention_dst, layer.weight, layer.bias});
  return GatStack::apply(at::TensorList(parameters), StackInput{rows, batch, options, pass});
}

}  // namespace strata::nn
