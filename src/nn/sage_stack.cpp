#include "sage_stack.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "op_support.hpp"
#include "ops.hpp"
#include "sage_kernels.hpp"
#include "strata/util/error.hpp"

namespace strata::nn {
namespace {

using sampling::Block;

EdgeLists lists_of(const Block& block) {
  return {.indptr = block.indptr, .counts = block.counts, .stride = block.stride, .indices = block.indices};
}

/// What the backward pass needs of a layer.
struct LayerTape {
  Block block;
  at::Tensor joined;  // [dst, 2 in + tail]: what was multiplied
  at::Tensor weight;  // [out, 2 in + tail]: [W_l | W_r | b | 0]
  at::Tensor output;  // [dst, out] after ReLU and dropout; not of the last layer
  float scale = 1;    // of dropout

  std::int64_t in_cols() const { return (joined.size(1) - MeanConcat::kTail) / 2; }
};

struct Tape {
  std::vector<LayerTape> layers;
};

/// The input of a stack: no tensor, as its rows may be those of the whole graph.
struct StackInput {
  RowTable table;
  sampling::MiniBatch batch;
  double dropout = 0;
  Pass pass;
};

at::Tensor join(const RowTable& table, const Block& block) {
  at::Tensor joined = at::empty({block.num_dst, 2 * table.cols + MeanConcat::kTail}, options_of(block));
  mean_concat({.rows = block.num_dst,
               .cols = table.cols,
               .in = table.rows,
               .in_pitch = table.pitch,
               .first_row = table.first_node,
               .edges = lists_of(block),
               .own_ids = block.global_indices ? block.src_nodes : nullptr,
               .out = joined.mutable_data_ptr<float>()},
              stream_of(joined));
  return joined;
}

at::Tensor join_weights(const at::Tensor& neighbours, const at::Tensor& root, const at::Tensor& bias) {
  const at::Tensor none = at::zeros({bias.size(0), MeanConcat::kTail - 1}, bias.options());
  return at::cat({neighbours, root, bias.unsqueeze(1), none}, 1);
}

/// Gradient of the layer's output before ReLU and dropout, from that of what the next layer multiplied.
at::Tensor gated_grad(const LayerTape& layer, const LayerTape& next, const at::Tensor& grad_joined) {
  if (next.block.transposed_indptr == nullptr) {
    throw Error("the gradient of a layer's input needs the transpose of its block, which was not sampled");
  }
  at::Tensor grad = at::empty_like(layer.output);
  gated_mean_grad({.rows = next.block.num_src,
                   .cols = layer.output.size(1),
                   .num_dst = next.block.num_dst,
                   .transposed_indptr = next.block.transposed_indptr,
                   .transposed_indices = next.block.transposed_indices,
                   .edges = lists_of(next.block),
                   .grad = grad_joined.const_data_ptr<float>(),
                   .output = layer.output.const_data_ptr<float>(),
                   .scale = layer.scale,
                   .out = grad.mutable_data_ptr<float>()},
                  stream_of(grad));
  return grad;
}

struct SageStack : Function<SageStack> {
  static at::Tensor forward(AutogradContext* context, at::TensorList parameters, const StackInput& input) {
    Tape tape;
    RowTable table = input.table;
    const auto& blocks = input.batch.blocks;
    at::Tensor out;
    for (std::size_t l = 0; l < blocks.size(); ++l) {
      LayerTape& layer = tape.layers.emplace_back();
      layer.block = blocks[l];
      layer.joined = join(table, blocks[l]);
      layer.weight = join_weights(parameters[3 * l], parameters[3 * l + 1], parameters[3 * l + 2]);
      out = layer.joined.mm(layer.weight.t());
      if (l + 1 == blocks.size()) break;
      const DropoutRule rule =
          make_dropout(input.dropout, input.pass, static_cast<int>(blocks.size() - 1 - l), blocks[l]);
      relu_dropout(out, rule);
      layer.output = out;
      layer.scale = rule.scale();
      table = {.rows = out.const_data_ptr<float>(), .cols = out.size(1), .pitch = out.size(1)};
    }
    carry(context, std::move(tape));
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const Tape& tape = carried<Tape>(context);
    variable_list result(3 * tape.layers.size() + 1);  // the last: of the input, which has none
    at::Tensor grad = grads[0].contiguous();
    for (std::size_t l = tape.layers.size(); l-- > 0;) {
      const LayerTape& layer = tape.layers[l];
      const std::int64_t in = layer.in_cols();
      const at::Tensor grad_weight = grad.t().mm(layer.joined);
      result[3 * l] = grad_weight.narrow(1, 0, in);
      result[3 * l + 1] = grad_weight.narrow(1, in, in);
      result[3 * l + 2] = grad_weight.select(1, 2 * in);
      if (l > 0) grad = gated_grad(tape.layers[l - 1], layer, grad.mm(layer.weight.narrow(1, 0, 2 * in)));
    }
    return result;
  }
};

}  // namespace

at::Tensor sage_stack(const RowTable& table, const std::vector<SageWeights>& layers,
                      const sampling::MiniBatch& batch, double dropout, const Pass& pass) {
  variable_list parameters;
  for (const SageWeights& layer : layers) {
    parameters.insert(parameters.end(), {layer.neighbours, layer.root, layer.bias});
  }
  return SageStack::apply(at::TensorList(parameters), StackInput{table, batch, dropout, pass});
}

}  // namespace strata::nn
