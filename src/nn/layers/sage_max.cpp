// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/empty.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/edge_kernels.hpp"
#include "layers/layers.hpp"
#include "layers/op_support.hpp"
#include "layers/ops.hpp"
#include "layers/sage_layer.hpp"
#include "strata/util/error.hpp"

namespace strata::nn {
namespace {

using sampling::Block;

at::Tensor max_of_neighbors(const at::Tensor& x, const Block& block, at::Tensor* winners) {
  at::Tensor out = at::empty({block.num_dst, x.size(1)}, x.options());
  if (winners != nullptr) *winners = at::empty(out.sizes(), x.options().dtype(at::kInt));
  const EdgeMax max{.edges = {block.num_dst, block.indptr, block.indices},
                    .cols = x.size(1),
                    .weights = block.edge_weights,
                    .in = x.const_data_ptr<float>(),
                    .out = out.mutable_data_ptr<float>(),
                    .winners = winners == nullptr ? nullptr : winners->mutable_data_ptr<std::int32_t>()};
#if STRATA_WITH_CUDA
  if (x.is_cuda()) neighbor_max_cuda(max, stream_of(x));
#endif
  if (x.is_cpu()) {
    use_torch_threads();
    neighbor_max_cpu(max);
  }
  return out;
}

struct MaxAggregation : Function<MaxAggregation> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const Block& block) {
    at::Tensor winners;
    const at::Tensor out = max_of_neighbors(x, block, &winners);
    carry(context, block);
    context->save_for_backward({winners});
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const Block& block = carried<Block>(context);
    if (block.transposed_indptr == nullptr) {
      throw Error("the gradient of a layer's input needs the transpose of its block, which was not sampled");
    }
    const at::Tensor grad_out = grads[0].contiguous(), winners = context->get_saved_variables()[0];
    at::Tensor grad_in = at::empty({block.num_src, grad_out.size(1)}, grad_out.options());
    const EdgeMaxGrad grad{.out_edges = {block.num_src, block.transposed_indptr, block.transposed_indices},
                           .cols = grad_out.size(1),
                           .winners = winners.const_data_ptr<std::int32_t>(),
                           .grad_out = grad_out.const_data_ptr<float>(),
                           .grad_in = grad_in.mutable_data_ptr<float>()};
#if STRATA_WITH_CUDA
    if (grad_out.is_cuda()) neighbor_max_grad_cuda(grad, stream_of(grad_out));
#endif
    if (grad_out.is_cpu()) {
      use_torch_threads();
      neighbor_max_grad_cpu(grad);
    }
    return {grad_in, {}};
  }
};

at::Tensor neighbor_max(const at::Tensor& x, const Block& block) {
  if (!x.requires_grad()) return max_of_neighbors(x.contiguous(), block, nullptr);
  return MaxAggregation::apply(x.contiguous(), block);
}

/// PyG's SAGEConv with max aggregation: lin_l(max of x over the in-neighbors) + lin_r(x of the node itself).
class SageMaxModel final : public StackedModel {
 public:
  explicit SageMaxModel(const ModelOptions& options) : StackedModel(options) {
    for (int i = 0; i < num_layers(); ++i) {
      layers_.push_back(std::make_shared<SageLayer>(input_cols(i), output_cols(i), options.seed, i));
    }
    register_layers({layers_.begin(), layers_.end()});
    traits_.takes_dst_apart = true;
  }

  at::Tensor evaluate(int layer, const ExactInput& input) override {
    if (!input.own.defined()) return StackedModel::evaluate(layer, input);
    const at::Tensor largest = neighbor_max(input.rows, input.block);
    return finish(layer, map(at::kFloat, layer, largest, input.own), input.block, {});
  }

 private:
  at::Tensor add_piece(int, const ExactInput& input) const override {
    const at::Tensor& before = input.piece->before;
    if (input.block.num_edges == 0) return before;
    const at::Tensor largest = neighbor_max(input.rows, input.block);
    return before.defined() ? at::maximum(before, largest) : largest;
  }
  at::Tensor finish_pieces(int layer, const at::Tensor& state, const ExactInput& input) override {
    return output_from(layer, state.defined() ? state : at::zeros_like(input.rows.narrow(0, 0, 1)), input);
  }

  at::Tensor convolve(int layer, const at::Tensor& x, const Block& block, const Pass& pass) override {
    const at::Tensor rows = x.to(at::kFloat);  // so that a maximum needs no second set of kernels
    return map(type_of(pass), layer, neighbor_max(rows, block), x.narrow(0, 0, block.num_dst));
  }

  at::Tensor map(at::ScalarType type, int layer, const at::Tensor& largest, const at::Tensor& x_dst) const {
    return map_rows(type, largest, at_layer(layer).neighbors->weight)
        .addmm(x_dst.to(type), at_layer(layer).root->weight.to(type).t());
  }

  const at::Tensor& bias(int layer) const override { return at_layer(layer).neighbors->bias; }
  const SageLayer& at_layer(int layer) const { return *layers_[at(layer)]; }

  std::vector<std::shared_ptr<SageLayer>> layers_;
};

}  // namespace

std::shared_ptr<BlockModel> make_sage_max(const ModelOptions& options) {
  return std::make_shared<SageMaxModel>(options);
}

}  // namespace strata::nn
