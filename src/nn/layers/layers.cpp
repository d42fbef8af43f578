// SPDX-License-Identifier: Apache-2.0
#include "layers/layers.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "layers/op_support.hpp"
#include "strata/util/error.hpp"

namespace strata::nn {

Linear::Linear(at::Tensor initial_weight, at::Tensor initial_bias) {
  weight = register_parameter("weight", std::move(initial_weight));
  if (initial_bias.defined()) bias = register_parameter("bias", std::move(initial_bias));
}

void check_heads(const ModelOptions& options, int dividing) {
  if (options.heads.size() != 1 && options.heads.size() != at(options.num_layers))
    throw InputError(
        fmt::format("{} numbers of heads for {} layers", options.heads.size(), options.num_layers),
        "Give one number, or one per layer.");
  for (int layer = 0; layer < options.num_layers; ++layer) {
    const int heads = options.heads_of(layer);
    if (heads < 1 || (layer < dividing && options.hidden % heads != 0))
      throw InputError(
          fmt::format("{} hidden columns cannot be divided among {} attention heads", options.hidden, heads),
          "Choose a width of the hidden layers that is a multiple of the heads.");
  }
}

void StackedModel::register_layers(const std::vector<std::shared_ptr<torch::nn::Module>>& layers) {
  const auto list = register_module("convs", std::make_shared<torch::nn::Module>());
  for (std::size_t i = 0; i < layers.size(); ++i) list->register_module(std::to_string(i), layers[i]);
}

at::Tensor StackedModel::forward_layer(int layer, const at::Tensor& x, const sampling::Block& block,
                                       const Pass& pass) {
  check_input(x, block);
  const at::Tensor input =
      layer == 0 ? dropout(x, make_dropout(options_.input_dropout, pass, hop_of_dst(layer) + 1, block)) : x;
  return finish(layer, convolve(layer, input, block, pass), block, pass);
}

at::Tensor StackedModel::evaluate(int layer, const ExactInput& input) {
  check_input(input.rows, input.block);
  if (!input.piece) {
    const at::Tensor z = input.projected ? sum_projected(layer, input.rows, input.block)
                                         : convolve(layer, input.rows, input.block, {});
    return finish(layer, z, input.block, {});
  }
  const at::Tensor state = add_piece(layer, input);
  return input.piece->last ? finish_pieces(layer, state, input) : state;
}

at::Tensor StackedModel::sum_projected(int layer, const at::Tensor&, const sampling::Block&) {
  throw Error(fmt::format("layer {} of this model cannot be projected before its sum", layer));
}

at::Tensor StackedModel::add_piece(int, const ExactInput& input) const {
  BlockScales scales = scales_of_piece(input.block);
  const at::Tensor rows = aggregate(input.rows, input.block, scales);
  scales.col.reset();
  const at::Tensor ones = at::ones({input.block.num_src, 1}, options_of(input.block)),
                   now = at::cat({rows, aggregate(ones, input.block, scales)}, 1).to(at::kDouble);
  return input.piece->before.defined() ? input.piece->before.add(now) : now;
}

at::Tensor StackedModel::finish_pieces(int layer, const at::Tensor& state, const ExactInput& input) {
  constexpr double kLeast = 1e-30;  // because a sum of nothing has the weight 0
  const std::int64_t cols = input.rows.size(1);
  const at::Tensor mean = state.narrow(1, 0, cols).div(state.narrow(1, cols, 1).clamp_min(kLeast));
  return output_from(layer, mean.to(at::kFloat), input);
}

at::Tensor StackedModel::output_from(int layer, const at::Tensor& stand_in, const ExactInput& input) {
  const at::TensorOptions ints = options_of(input.block).dtype(at::kInt);
  const at::Tensor indptr = at::tensor({0, 1}, ints.dtype(at::kLong)), indices = at::tensor({1}, ints);
  ExactInput whole{.rows = at::cat({input.rows.narrow(0, 0, 1), stand_in}),
                   .projected = input.projected,
                   .block = {.device = input.block.device,
                             .num_dst = 1,
                             .num_src = 2,
                             .num_edges = 1,
                             .indptr = indptr.const_data_ptr<std::int64_t>(),
                             .indices = indices.const_data_ptr<std::int32_t>()}};
  at::Tensor degrees;
  if (input.block.src_in_degrees != nullptr) {  // the stand-in has degree 0, which scales nothing
    const at::Tensor own = at::from_blob(const_cast<std::int32_t*>(input.block.src_in_degrees), {1}, ints);
    degrees = at::cat({own, at::zeros({1}, ints)});
    whole.block.src_in_degrees = degrees.const_data_ptr<std::int32_t>();
  }
  return evaluate(layer, whole);
}

at::Tensor StackedModel::stack_rows(const at::Tensor& x, const sampling::Block& block,
                                    const Pass& pass) const {
  if (block.global_indices) return x;
  check_input(x, block);
  return dropout(x, make_dropout(options_.input_dropout, pass, num_layers(), block)).contiguous();
}

at::Tensor StackedModel::finish(int layer, const at::Tensor& z, const sampling::Block& block,
                                const Pass& pass) const {
  if (is_last(layer)) return add_bias(z, bias(layer));
  return bias_relu_dropout(z, bias(layer), make_dropout(options_.dropout, pass, hop_of_dst(layer), block));
}

bool maps_first(std::int64_t in_cols, std::int64_t out_cols, const at::Tensor& x,
                const sampling::Block& block) {
  // The gradient of the mapped rows flows back over the transpose, which the input layer of a training step
  // does not have.
  if (c10::GradMode::is_enabled() && block.transposed_indptr == nullptr) return false;
  // The cost of a gathered element in multiply-adds of a matrix product. On two CPU cores 4 bytes at 10 GB/s
  // against 50 G/s make 20; on an H200 (f32) it is about 60.
  constexpr double kGatherCost = 32.0;
  const auto product = static_cast<double>(in_cols) * static_cast<double>(out_cols);
  const double map_first = static_cast<double>(x.size(0)) * product +
                           kGatherCost * static_cast<double>(block.num_edges * out_cols);
  const double sum_first = static_cast<double>(block.num_dst) * product +
                           kGatherCost * static_cast<double>(block.num_edges * in_cols);
  return map_first < sum_first;
}

std::vector<LayerCols> projecting_layers(const ModelOptions& options, std::int64_t parts) {
  std::vector<LayerCols> layers = options.layers();
  for (LayerCols& layer : layers) layer.projected = parts * layer.output;
  return layers;
}

}  // namespace strata::nn
