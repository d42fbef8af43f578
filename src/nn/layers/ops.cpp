// SPDX-License-Identifier: Apache-2.0
#include "layers/ops.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "layers/op_support.hpp"
#include "strata/util/error.hpp"

namespace strata::nn {
namespace {

using sampling::Block;

struct ScaledBlock {
  Block block;
  BlockScales scales;
  at::ScalarType type;  ///< type of the results
};

/// The kernels for a device and the stream that libtorch works on.
struct Target {
  const Kernels& kernels;
  CUstream_st* stream;
};

Target target_of(const at::Tensor& tensor) {
#if STRATA_WITH_CUDA
  if (tensor.is_cuda()) return {cuda_kernels(), stream_of(tensor)};
#endif
  use_torch_threads();
  return {cpu_kernels(), stream_of(tensor)};
}

Scales degrees_of(const Block& block) {
  return {.num_dst = block.num_dst,
          .num_src = block.num_src,
          .indptr = block.indptr,
          .in_degrees = block.src_in_degrees,
          .indices = block.indices,
          .edge_weights = block.edge_weights};
}

bool is_bf16(const at::Tensor& tensor) { return tensor.scalar_type() == at::kBFloat16; }

template <typename In, typename Out>
void sum_in_neighbors_as(const at::Tensor& x, const Block& block, const BlockScales& scales,
                         const at::Tensor& out) {
  const Target target = target_of(x);
  target.kernels.sparse_sum(SparseSumOf<In, Out>{.rows = block.num_dst,
                                                 .cols = x.size(1),
                                                 .indptr = block.indptr,
                                                 .indices = block.indices,
                                                 .in = elements<In>(x),
                                                 .edge_scale = block.edge_weights,
                                                 .row_scale = data_or_null(scales.row),
                                                 .col_scale = data_or_null(scales.col),
                                                 .self = scales.self.defined() ? elements<In>(x) : nullptr,
                                                 .self_scale = data_or_null(scales.self),
                                                 .num_self = scales.self.defined() ? block.num_dst : 0,
                                                 .skips_loops = scales.skips_loops,
                                                 .out = mutable_elements<Out>(out)},
                            target.stream);
}

/// `type` is that of the result; f32 only if x is f32.
at::Tensor sum_in_neighbors(const at::Tensor& x, const Block& block, const BlockScales& scales,
                            at::ScalarType type) {
  const at::Tensor out = at::empty({block.num_dst, x.size(1)}, x.options().dtype(type));
  if (type == at::kFloat)
    sum_in_neighbors_as<float, float>(x, block, scales, out);
  else if (is_bf16(x))
    sum_in_neighbors_as<Bf16, Bf16>(x, block, scales, out);
  else
    sum_in_neighbors_as<float, Bf16>(x, block, scales, out);
  return out;
}

template <typename T>
void sum_out_neighbors_as(const at::Tensor& grad, const at::Tensor& self, const Block& block,
                          const BlockScales& scales, const at::Tensor& out) {
  const Target target = target_of(grad);
  target.kernels.sparse_sum(SparseSumOf<T, T>{.rows = block.num_src,
                                              .cols = grad.size(1),
                                              .indptr = block.transposed_indptr,
                                              .indices = block.transposed_indices,
                                              .in = elements<T>(grad),
                                              .row_scale = data_or_null(scales.col),
                                              .col_scale = data_or_null(scales.row),
                                              .self = elements<T>(self),
                                              .self_scale = data_or_null(scales.self),
                                              .num_self = self.defined() ? block.num_dst : 0,
                                              .skips_loops = scales.skips_loops,
                                              .out = mutable_elements<T>(out)},
                            target.stream);
}

/// The gradient of x: the sum over the transpose, plus `self` for the dst rows.
at::Tensor sum_out_neighbors(const at::Tensor& grad, const at::Tensor& self, const Block& block,
                             const BlockScales& scales) {
  if (block.transposed_indptr == nullptr) {
    throw Error("the gradient of a layer's input needs the transpose of its block, which was not sampled");
  }
  const at::Tensor out = at::empty({block.num_src, grad.size(1)}, grad.options());
  if (is_bf16(grad))
    sum_out_neighbors_as<Bf16>(grad, self, block, scales, out);
  else
    sum_out_neighbors_as<float>(grad, self, block, scales, out);
  return out;
}

struct AggregateRows : Function<AggregateRows> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const ScaledBlock& over) {
    carry(context, over);
    return sum_in_neighbors(x, over.block, over.scales, over.type);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto& [block, scales, type] = carried<ScaledBlock>(context);
    const at::Tensor grad = grads[0].contiguous();
    return {sum_out_neighbors(grad, scales.self.defined() ? grad : at::Tensor(), block, scales), {}};
  }
};

struct SageConvolution : Function<SageConvolution> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& neighbor,
                            const at::Tensor& root, const ScaledBlock& over) {
    const at::Tensor mean = sum_in_neighbors(x, over.block, over.scales, over.type);
    const at::Tensor x_dst = x.narrow(0, 0, over.block.num_dst).to(over.type);
    const at::Tensor neighbor_map = neighbor.to(over.type), root_map = root.to(over.type);
    carry(context, over);
    context->save_for_backward({x_dst, mean, neighbor_map, root_map});
    at::Tensor z = mean.mm(neighbor_map.t());
    z.addmm_(x_dst, root_map.t());
    return z;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto& [block, scales, type] = carried<ScaledBlock>(context);
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x_dst = saved[0], &mean = saved[1], &neighbor = saved[2], &root = saved[3];
    const at::Tensor grad = grads[0].contiguous();
    at::Tensor grad_x;
    if (context->needs_input_grad(0)) {
      grad_x = sum_out_neighbors(grad.mm(neighbor), grad.mm(root), block, scales);
    }
    return {grad_x, grad.t().mm(mean).to(at::kFloat), grad.t().mm(x_dst).to(at::kFloat), {}};
  }
};

template <typename T>
void activate_as(const at::Tensor& values, const at::Tensor& bias, bool relu, const DropoutRule& dropout) {
  const Target target = target_of(values);
  target.kernels.activate(ActivationOf<T>{.rows = values.size(0),
                                          .cols = values.size(1),
                                          .bias = data_or_null(bias),
                                          .relu = relu,
                                          .dropout = dropout,
                                          .values = mutable_elements<T>(values)},
                          target.stream);
}

void activate(const at::Tensor& values, const at::Tensor& bias, bool relu, const DropoutRule& dropout) {
  if (is_bf16(values))
    activate_as<Bf16>(values, bias, relu, dropout);
  else
    activate_as<float>(values, bias, relu, dropout);
}

template <typename T>
void activation_grad_as(const at::Tensor& output, const at::Tensor& grad_out, float scale,
                        const at::Tensor& grad_in) {
  const Target target = target_of(grad_out);
  target.kernels.activation_grad(ActivationGradOf<T>{.rows = output.size(0),
                                                     .cols = output.size(1),
                                                     .output = elements<T>(output),
                                                     .grad_out = elements<T>(grad_out),
                                                     .scale = scale,
                                                     .grad_in = mutable_elements<T>(grad_in)},
                                 target.stream);
}

struct BiasReluDropout : Function<BiasReluDropout> {
  struct Kept {
    float scale;
    bool has_bias;
  };
  static at::Tensor forward(AutogradContext* context, const at::Tensor& z,
                            const std::optional<at::Tensor>& bias, const DropoutRule& dropout) {
    activate(z, bias.value_or(at::Tensor()), true, dropout);
    carry(context, Kept{.scale = dropout.scale(), .has_bias = bias.has_value()});
    context->mark_dirty({z});
    context->save_for_backward({z});
    return z;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const at::Tensor output = context->get_saved_variables()[0], grad_out = grads[0].contiguous();
    const at::Tensor grad_z = at::empty_like(grad_out);
    const auto [scale, has_bias] = carried<Kept>(context);
    if (is_bf16(output))
      activation_grad_as<Bf16>(output, grad_out, scale, grad_z);
    else
      activation_grad_as<float>(output, grad_out, scale, grad_z);
    return {grad_z, has_bias ? grad_z.sum(0, false, at::kFloat) : at::Tensor(), {}};
  }
};

struct AddBias : Function<AddBias> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& z, const at::Tensor& bias) {
    activate(z, bias, false, {});
    context->mark_dirty({z});
    return z;
  }

  static variable_list backward(AutogradContext*, const variable_list& grads) {
    return {grads[0], grads[0].sum(0)};
  }
};

struct KeyedDropout : Function<KeyedDropout> {
  static at::Tensor apply_rule(const at::Tensor& x, const DropoutRule& rule) {
    at::Tensor out = at::empty_like(x);
    const Target target = target_of(x);
    target.kernels.dropout({.rows = x.size(0),
                            .cols = x.size(1),
                            .rule = rule,
                            .in = x.const_data_ptr<float>(),
                            .out = out.mutable_data_ptr<float>()},
                           target.stream);
    return out;
  }

  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const DropoutRule& rule) {
    carry(context, rule);
    return apply_rule(x, rule);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    return {apply_rule(grads[0].contiguous(), carried<DropoutRule>(context)), {}};
  }
};

}  // namespace

BlockScales mean_scales(const Block& block) {
  BlockScales scales{.row = at::empty({block.num_dst}, options_of(block))};
  const Target target = target_of(scales.row);
  target.kernels.mean_scales(degrees_of(block), scales.row.mutable_data_ptr<float>(), target.stream);
  return scales;
}

BlockScales gcn_scales(const Block& block) {
  if (block.src_in_degrees == nullptr && block.num_src > 0) {
    throw Error("GCN needs the in-degrees of a block's nodes, which the sampler was not asked for");
  }
  const at::TensorOptions options = options_of(block);
  BlockScales scales{.row = at::empty({block.num_dst}, options),
                     .col = at::empty({block.num_src}, options),
                     .self = at::empty({block.num_dst}, options),
                     .skips_loops = true};
  const Target target = target_of(scales.row);
  target.kernels.gcn_scales(degrees_of(block), scales.row.mutable_data_ptr<float>(),
                            scales.col.mutable_data_ptr<float>(), scales.self.mutable_data_ptr<float>(),
                            target.stream);
  return scales;
}

at::Tensor aggregate(const at::Tensor& x, const Block& block, const BlockScales& scales) {
  return aggregate_to(x.scalar_type(), x, block, scales);
}

at::Tensor aggregate_to(at::ScalarType type, const at::Tensor& x, const Block& block,
                        const BlockScales& scales) {
  // The gradient of x has the type of the result.
  const at::Tensor rows = x.requires_grad() ? x.to(type) : x;
  return AggregateRows::apply(rows.contiguous(), ScaledBlock{block, scales, type});
}

at::Tensor sage_convolution(at::ScalarType type, const at::Tensor& x, const at::Tensor& neighbor,
                            const at::Tensor& root, const Block& block) {
  const at::Tensor rows = x.requires_grad() ? x.to(type) : x;
  return SageConvolution::apply(rows.contiguous(), neighbor, root,
                                ScaledBlock{block, mean_scales(block), type});
}

at::Tensor bias_relu_dropout(const at::Tensor& z, const at::Tensor& bias, const DropoutRule& dropout) {
  return BiasReluDropout::apply(z, bias.defined() ? std::optional(bias) : std::nullopt, dropout);
}

void activate_hidden(const at::Tensor& z, const at::Tensor& bias, const DropoutRule& dropout) {
  activate(z, bias, true, dropout);
}

at::Tensor add_bias(const at::Tensor& z, const at::Tensor& bias) {
  if (!bias.defined()) return z.to(at::kFloat);
  return AddBias::apply(z.to(at::kFloat), bias);
}

at::Tensor map_rows(at::ScalarType type, const at::Tensor& x, const at::Tensor& weight) {
  return x.to(type).mm(weight.to(type).t());
}

at::Tensor dropout(const at::Tensor& x, const DropoutRule& rule) {
  if (!rule.active()) return x;
  return KeyedDropout::apply(x.contiguous(), rule);
}

DropoutRule make_dropout(double probability, const Pass& pass, int hop, const Block& block) {
  if (!pass.training || probability == 0.0) return {};
  if (block.src_original_ids == nullptr && block.num_src > 0) {
    throw Error("dropout needs the original ids of a block's nodes");
  }
  const auto threshold = static_cast<std::uint32_t>(std::lround(probability * 65536.0));
  return {.key = pass.key,
          .hop = static_cast<std::uint32_t>(hop),
          .threshold = std::min(threshold, 65535u),
          .ids = block.src_original_ids,
          .device_key = pass.device_key};
}

void check_input(const at::Tensor& x, const Block& block) {
  const bool known = x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16;
  if (x.dim() != 2 || x.size(0) != block.num_src || !known) {
    throw Error(
        fmt::format("a layer's input must be f32 or bf16 [{}, columns], got {} of {} dimensions with {} rows",
                    block.num_src, c10::toString(x.scalar_type()), x.dim(), x.dim() == 0 ? 0 : x.size(0)));
  }
  if (x.is_cuda() != block.device.is_cuda()) {
    throw Error(
        fmt::format("a layer's input lies on {}, its block on {}", x.device().str(), block.device.str()));
  }
}

}  // namespace strata::nn
