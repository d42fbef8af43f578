#include "layers.hpp"

#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "ops.hpp"
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
  // What a gathered element costs in multiply-adds of a matrix product: 4 bytes at 10 GB/s against 50 G/s on
  // two CPU cores make 20, on an H200 (f32) it is about 60.
  constexpr double kGatherCost = 32.0;
  const auto product = static_cast<double>(in_cols) * static_cast<double>(out_cols);
  const double map_first = static_cast<double>(x.size(0)) * product +
                           kGatherCost * static_cast<double>(block.num_edges * out_cols);
  const double sum_first = static_cast<double>(block.num_dst) * product +
                           kGatherCost * static_cast<double>(block.num_edges * in_cols);
  return map_first < sum_first;
}

}  // namespace strata::nn
