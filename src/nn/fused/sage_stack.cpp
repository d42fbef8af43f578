// SPDX-License-Identifier: Apache-2.0
#include "fused/sage_stack.hpp"

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "fused/stack_support.hpp"
#include "layers/ops.hpp"
#include "strata/util/error.hpp"

namespace strata::nn {
namespace {

using sampling::Block;

template <typename T>
constexpr at::ScalarType kTypeOf = std::is_same_v<T, Bf16> ? at::kBFloat16 : at::kFloat;

/// What the backward pass needs from a layer.
struct LayerTape {
  SageWeights parameters;
  Block block;
  at::Tensor joined;   // [dst, 2 in]: the left factor of the product
  at::Tensor weight;   // [out, 2 in]: [W_l | W_r]
  at::Tensor product;  // [dst, out] before ReLU and dropout; not in the last layer
  HiddenRows hidden;   // what is applied to the product when it is read

  std::int64_t in_cols() const { return joined.size(1) / 2; }
};

struct Tape {
  std::vector<LayerTape> layers;
  bool bf16 = false;
};

struct StackInput {
  at::Tensor rows;
  sampling::MiniBatch batch;
  double dropout = 0;
  Pass pass;
  bool bf16 = false;
};

at::Tensor empty_rows(Count rows, Count cols, at::ScalarType type, const Block& block) {
  return at::empty({rows, cols}, options_of(block).dtype(type));
}

template <typename T>
at::Tensor join_input(const at::Tensor& x, const Block& block) {
  const at::Tensor joined = empty_rows(block.num_dst, 2 * x.size(1), kTypeOf<T>, block);
  mean_concat<float, T>({.rows = block.num_dst,
                         .cols = x.size(1),
                         .in = x.const_data_ptr<float>(),
                         .in_pitch = x.stride(0),
                         .edges = lists_of(block),
                         .own_ids = block.global_indices ? block.src_nodes : nullptr,
                         .out = mutable_elements<T>(joined)},
                        stream_of(joined));
  return joined;
}

template <typename T>
at::Tensor join_hidden(const LayerTape& layer, const Block& block) {
  const Count cols = layer.product.size(1);
  const at::Tensor joined = empty_rows(block.num_dst, 2 * cols, kTypeOf<T>, block);
  mean_concat<T, T>({.rows = block.num_dst,
                     .cols = cols,
                     .in = elements<T>(layer.product),
                     .in_pitch = cols,
                     .hidden = layer.hidden,
                     .edges = lists_of(block),
                     .out = mutable_elements<T>(joined)},
                    stream_of(joined));
  return joined;
}

/// Calls launch(first, SageLayers of at most kMaxSageLayers) for all of `layers`.
template <typename Layer, typename Launch>
void in_launches(const std::vector<Layer>& layers, const Launch& launch) {
  for (std::size_t first = 0; first < layers.size(); first += kMaxSageLayers) {
    SageLayers<Layer> some;
    some.count = static_cast<int>(std::min<std::size_t>(kMaxSageLayers, layers.size() - first));
    std::copy_n(layers.begin() + static_cast<std::ptrdiff_t>(first), some.count, some.layers.begin());
    launch(some);
  }
}

template <typename T>
void join_all_weights(std::vector<LayerTape>& tapes) {
  std::vector<JoinedWeightsOf<T>> layers;
  for (LayerTape& tape : tapes) {
    const at::Tensor& neighbors = tape.parameters.neighbors;
    const Count out = neighbors.size(0), in = neighbors.size(1);
    tape.weight = at::empty({out, 2 * in}, neighbors.options().dtype(kTypeOf<T>).requires_grad(false));
    layers.push_back({.out_cols = out,
                      .in_cols = in,
                      .neighbors = neighbors.const_data_ptr<float>(),
                      .root = tape.parameters.root.const_data_ptr<float>(),
                      .joined = mutable_elements<T>(tape.weight)});
  }
  in_launches(layers, [&](const auto& some) { join_weights(some, stream_of(tapes.front().weight)); });
}

/// joined weight^T + bias, in f32 if it is the model's output.
at::Tensor multiply(const LayerTape& layer, bool is_output) {
  const at::Tensor bias = layer.parameters.bias.detach();
  if (is_output && layer.joined.scalar_type() != at::kFloat)
    return product_f32(layer.joined, layer.weight.t()).add_(bias);
  return at::addmm(bias.to(layer.joined.scalar_type()), layer.joined, layer.weight.t());
}

template <typename T>
at::Tensor run_forward(Tape& tape, const StackInput& input) {
  join_all_weights<T>(tape.layers);
  const auto& blocks = input.batch.blocks;
  for (std::size_t l = 0;; ++l) {
    LayerTape& layer = tape.layers[l];
    layer.block = blocks[l];
    layer.joined =
        l == 0 ? join_input<T>(input.rows, blocks[l]) : join_hidden<T>(tape.layers[l - 1], blocks[l]);
    const bool is_output = l + 1 == blocks.size();
    const at::Tensor product = multiply(layer, is_output);
    if (is_output) return product;
    layer.product = product;
    layer.hidden = {.relu = true,
                    .dropout = make_dropout(input.dropout, input.pass,
                                            static_cast<int>(blocks.size() - 1 - l), blocks[l])};
  }
}

/// The gradient of a layer's product, and sums over pieces of its rows, which add up to the gradient of the
/// bias.
struct LayerGrad {
  at::Tensor rows;        // [dst, out]
  at::Tensor piece_sums;  // [pieces, out] f32
};

/// The gradient of the layer's product, from that of the next layer's joined rows.
template <typename T>
LayerGrad gated_grad(const LayerTape& layer, const LayerTape& next, const at::Tensor& grad_joined) {
  if (next.block.transposed_indptr == nullptr) {
    throw Error("the gradient of a layer's input needs the transpose of its block, which was not sampled");
  }
  GatedMeanGradOf<T> task{.rows = next.block.num_src,
                          .cols = layer.product.size(1),
                          .num_dst = next.block.num_dst,
                          .transposed_indptr = next.block.transposed_indptr,
                          .transposed_indices = next.block.transposed_indices,
                          .edges = lists_of(next.block),
                          .grad = elements<T>(grad_joined),
                          .product = elements<T>(layer.product),
                          .hidden = layer.hidden};
  const LayerGrad grad{.rows = at::empty_like(layer.product),
                       .piece_sums = empty_rows(task.num_pieces(), task.cols, at::kFloat, next.block)};
  task.out = mutable_elements<T>(grad.rows);
  task.piece_sums = mutable_elements<float>(grad.piece_sums);
  gated_mean_grad(task, stream_of(grad.rows));
  return grad;
}

/// Where a parameter's gradient is added: its own .grad, as the engine would do; if it has none, a tensor of
/// zeros, which becomes `returned`.
float* accumulator(const at::Tensor& parameter, at::Tensor& returned) {
  const at::Tensor& grad = parameter.grad();
  if (grad.defined() && grad.is_contiguous() && grad.scalar_type() == at::kFloat)
    return grad.mutable_data_ptr<float>();
  returned = at::zeros_like(parameter, parameter.options().requires_grad(false));
  return returned.mutable_data_ptr<float>();
}

template <typename T>
variable_list run_backward(const Tape& tape, const at::Tensor& grad_logits) {
  const std::size_t num_layers = tape.layers.size();
  variable_list result(3 * num_layers + 1);  // the last one is for the input, which has no gradient
  std::vector<ParameterGrads> parameters(num_layers);
  std::vector<at::Tensor> kept;  // keeps tensors alive until the launch below
  const at::Tensor logits = grad_logits.contiguous();
  LayerGrad grad{.rows = logits.to(kTypeOf<T>), .piece_sums = logits};
  for (std::size_t l = num_layers; l-- > 0;) {
    const LayerTape& layer = tape.layers[l];
    const at::Tensor joined = product_f32(grad.rows.t(), layer.joined);
    parameters[l] = {.out_cols = joined.size(0),
                     .in_cols = layer.in_cols(),
                     .joined = joined.const_data_ptr<float>(),
                     .num_pieces = grad.piece_sums.size(0),
                     .piece_sums = grad.piece_sums.const_data_ptr<float>(),
                     .neighbors = accumulator(layer.parameters.neighbors, result[3 * l]),
                     .root = accumulator(layer.parameters.root, result[3 * l + 1]),
                     .bias = accumulator(layer.parameters.bias, result[3 * l + 2])};
    kept.insert(kept.end(), {joined, grad.piece_sums});
    if (l > 0) grad = gated_grad<T>(tape.layers[l - 1], layer, grad.rows.mm(layer.weight));
  }
  in_launches(parameters, [&](const auto& some) { add_parameter_grads(some, stream_of(logits)); });
  return result;
}

struct SageStack : Function<SageStack> {
  static at::Tensor forward(AutogradContext* context, at::TensorList parameters, const StackInput& input) {
    Tape tape{.layers = std::vector<LayerTape>(input.batch.blocks.size()), .bf16 = input.bf16};
    for (std::size_t l = 0; l < tape.layers.size(); ++l)
      tape.layers[l].parameters = {parameters[3 * l], parameters[3 * l + 1], parameters[3 * l + 2]};
    const at::Tensor out = input.bf16 ? run_forward<Bf16>(tape, input) : run_forward<float>(tape, input);
    carry(context, std::move(tape));
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const Tape& tape = carried<Tape>(context);
    return tape.bf16 ? run_backward<Bf16>(tape, grads[0]) : run_backward<float>(tape, grads[0]);
  }
};

}  // namespace

at::Tensor sage_stack(const at::Tensor& rows, const std::vector<SageWeights>& layers,
                      const sampling::MiniBatch& batch, const StackOptions& options, const Pass& pass) {
  variable_list parameters;
  for (const SageWeights& layer : layers) {
    parameters.insert(parameters.end(), {layer.neighbors, layer.root, layer.bias});
  }
  return SageStack::apply(at::TensorList(parameters),
                          StackInput{rows, batch, options.dropout, pass, options.bf16});
}

}  // namespace strata::nn
