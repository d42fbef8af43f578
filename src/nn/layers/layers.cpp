// SPDX-License-Identifier: Apache-2.0
#include "layers/layers.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "layers/op_support.hpp"
#include "layers/ops.hpp"
#include "strata/util/error.hpp"

namespace strata::nn {

Linear::Linear(at::Tensor initial_weight, at::Tensor initial_bias) {
  weight = register_parameter("weight", std::move(initial_weight));
  if (initial_bias.defined()) bias = register_parameter("bias", std::move(initial_bias));
}

StackedModel::StackedModel(const ModelOptions& options) : options_(options) {}

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

at::Tensor StackedModel::combine(int layer, const at::Tensor& projected, const sampling::Block& block) {
  check_input(projected, block);
  return finish(layer, sum_projected(layer, projected, block), block, {});
}

at::Tensor StackedModel::sum_projected(int layer, const at::Tensor&, const sampling::Block&) {
  throw Error(fmt::format("layer {} of this model cannot be projected before its sum", layer));
}

at::Tensor StackedModel::sum_of_piece(const at::Tensor& x, const sampling::Block& piece) const {
  return aggregate(x, piece, {});
}

at::Tensor StackedModel::add_piece(int, const at::Tensor& before, const NeighborPiece& piece) {
  const at::Tensor sum = sum_of_piece(piece.x, piece.block).to(at::kDouble);
  return before.defined() ? before.add(sum) : sum;
}

at::Tensor StackedModel::finish_pieces(int layer, const at::Tensor& state, const NeighborPiece& own) {
  if (!state.defined()) return output_alone(layer, own);
  return output_from(layer, state.div(static_cast<double>(own.num_edges)).to(at::kFloat), own);
}

at::Tensor StackedModel::output_from(int layer, const at::Tensor& stand_in, const NeighborPiece& own) {
  const at::TensorOptions options = options_of(own.block);
  const at::Tensor indptr = at::tensor({0, 1}, options.dtype(at::kLong)),
                   indices = at::tensor({1}, options.dtype(at::kInt));
  sampling::Block block{.device = own.block.device,
                        .num_dst = 1,
                        .num_src = 2,
                        .num_edges = 1,
                        .indptr = indptr.const_data_ptr<std::int64_t>(),
                        .indices = indices.const_data_ptr<std::int32_t>()};
  at::Tensor degrees;
  if (own.block.src_in_degrees != nullptr) {  // the stand-in has degree 0, which scales nothing
    const at::Tensor degree =
        at::from_blob(const_cast<std::int32_t*>(own.block.src_in_degrees), {1}, options.dtype(at::kInt));
    degrees = at::cat({degree, at::zeros({1}, options.dtype(at::kInt))});
    block.src_in_degrees = degrees.const_data_ptr<std::int32_t>();
  }
  const at::Tensor rows = at::cat({own.x.narrow(0, 0, 1), stand_in});
  return own.projected ? combine(layer, rows, block) : forward_layer(layer, rows, block, {});
}

at::Tensor StackedModel::output_alone(int layer, const NeighborPiece& own) {
  return own.projected ? combine(layer, own.x, own.block) : forward_layer(layer, own.x, own.block, {});
}

at::Tensor StackedModel::stack_rows(const at::Tensor& x, const sampling::Block& block,
                                    const Pass& pass) const {
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

}  // namespace strata::nn
