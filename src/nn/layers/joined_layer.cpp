// SPDX-License-Identifier: Apache-2.0
#include "strata/nn/joined_layer.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "layers/op_support.hpp"
#include "strata/nn/edge_ops.hpp"
#if STRATA_WITH_CUDA
#include "fused/sage_kernels.hpp"
#endif

namespace strata::nn {
namespace {

DType dtype_of(const at::Tensor& rows) {
  TORCH_CHECK(rows.scalar_type() == at::kFloat || rows.scalar_type() == at::kBFloat16, "rows of ",
              rows.scalar_type(), "; convert them to float32 or bfloat16");
  return rows.scalar_type() == at::kFloat ? DType::f32 : DType::bf16;
}

EdgeLists lists_of(const at::Tensor& indptr, const at::Tensor& indices) {
  return {.rows = indptr.size(0) - 1,
          .indptr = indptr.const_data_ptr<Count>(),
          .indices = indices.const_data_ptr<std::int32_t>()};
}

/// The factor of each sum on the cpu; undefined: 1.
at::Tensor row_scale(const LayerEdges& edges, const LayerRule& rule) {
  if (!rule.mean) return {};
  const at::Tensor inverse = at::empty({edges.num_dst()}, edges.indptr.options().dtype(at::kFloat));
  inverse_counts(lists_of(edges.indptr, edges.indices), inverse.mutable_data_ptr<float>(), {});
  return inverse;
}

void join_on_cpu(const at::Tensor& x, const LayerEdges& edges, const LayerRule& rule,
                 const at::Tensor& joined) {
  use_torch_threads();
  const at::Tensor rows = rule.relu ? x.relu() : x, scale = row_scale(edges, rule);
  join_sums({.edges = lists_of(edges.indptr, edges.indices),
             .cols = x.size(1),
             .dtype = dtype_of(x),
             .in = rows.const_data_ptr(),
             .row_scale = data_or_null(scale),
             .out = joined.mutable_data_ptr()},
            {});
}

void grad_on_cpu(const at::Tensor& grad_joined, const at::Tensor& x, const LayerEdges& edges,
                 const LayerRule& rule, const at::Tensor& grad_x) {
  use_torch_threads();
  const at::Tensor scale = row_scale(edges, rule);
  join_sums_grad({.out_edges = lists_of(edges.out_indptr, edges.out_indices),
                  .num_dst = edges.num_dst(),
                  .cols = x.size(1),
                  .dtype = dtype_of(x),
                  .grad_out = grad_joined.const_data_ptr(),
                  .row_scale = data_or_null(scale),
                  .grad_in = grad_x.mutable_data_ptr()},
                 {});
  if (rule.relu) grad_x.masked_fill_(x.le(0), 0);
}

#if STRATA_WITH_CUDA
InEdges in_edges_of(const LayerEdges& edges) {
  return {.indptr = edges.indptr.const_data_ptr<Count>(),
          .indices = edges.indices.const_data_ptr<std::int32_t>()};
}

template <typename T>
void join_on_gpu(const at::Tensor& x, const LayerEdges& edges, const LayerRule& rule,
                 const at::Tensor& joined) {
  mean_concat<T, T>({.rows = edges.num_dst(),
                     .cols = x.size(1),
                     .in = elements<T>(x),
                     .in_pitch = x.size(1),
                     .hidden = {.relu = rule.relu, .dropout = {}},
                     .edges = in_edges_of(edges),
                     .mean = rule.mean,
                     .out = mutable_elements<T>(joined)},
                    stream_of(x));
}

template <typename T>
void grad_on_gpu(const at::Tensor& grad_joined, const at::Tensor& x, const LayerEdges& edges,
                 const LayerRule& rule, const at::Tensor& grad_x) {
  gated_mean_grad<T>({.rows = x.size(0),
                      .cols = x.size(1),
                      .num_dst = edges.num_dst(),
                      .transposed_indptr = edges.out_indptr.const_data_ptr<Count>(),
                      .transposed_indices = edges.out_indices.const_data_ptr<std::int32_t>(),
                      .edges = in_edges_of(edges),
                      .grad = elements<T>(grad_joined),
                      .product = rule.relu ? elements<T>(x) : nullptr,
                      .hidden = {.relu = rule.relu, .dropout = {}},
                      .mean = rule.mean,
                      .out = mutable_elements<T>(grad_x)},
                     stream_of(x));
}
#endif

/// [ mean or sum of the in-neighbors' rows | own row ], [D, 2 F].
at::Tensor join(const at::Tensor& x, const LayerEdges& edges, const LayerRule& rule) {
  const at::Tensor joined = at::empty({edges.num_dst(), 2 * x.size(1)}, x.options());
#if STRATA_WITH_CUDA
  if (x.is_cuda()) {
    dtype_of(x) == DType::f32 ? join_on_gpu<float>(x, edges, rule, joined)
                              : join_on_gpu<Bf16>(x, edges, rule, joined);
    return joined;
  }
#endif
  join_on_cpu(x, edges, rule, joined);
  return joined;
}

at::Tensor grad_of_rows(const at::Tensor& grad_joined, const at::Tensor& x, const LayerEdges& edges,
                        const LayerRule& rule) {
  TORCH_CHECK(edges.out_indptr.defined(), "the gradient of x needs the transposed lists");
  const at::Tensor grad_x = at::empty_like(x);
#if STRATA_WITH_CUDA
  if (x.is_cuda()) {
    dtype_of(x) == DType::f32 ? grad_on_gpu<float>(grad_joined, x, edges, rule, grad_x)
                              : grad_on_gpu<Bf16>(grad_joined, x, edges, rule, grad_x);
    return grad_x;
  }
#endif
  grad_on_cpu(grad_joined, x, edges, rule, grad_x);
  return grad_x;
}

at::Tensor grad_of_bias(const at::Tensor& grad) {
  if (grad.scalar_type() != at::kFloat) return grad.sum(0);
  const Count rows = grad.size(0), cols = grad.size(1);
  const at::Tensor scratch = at::empty({ColumnSums::pieces(rows), cols}, grad.options()),
                   out = at::empty({cols}, grad.options());
  cuda::Stream stream;
  if (grad.is_cuda()) {
    const Device device{.kind = Device::Kind::cuda, .index = grad.get_device()};
    stream = cuda::Stream::borrow(device, stream_of(grad));
  }
  column_sums({.rows = rows,
               .cols = cols,
               .in = grad.const_data_ptr<float>(),
               .scratch = scratch.mutable_data_ptr<float>(),
               .out = out.mutable_data_ptr<float>()},
              stream);
  return out;
}

/// The gradients of W_l and W_r from that of [W_l | W_r] [out, 2 F]; contiguous, so the engine copies none.
std::pair<at::Tensor, at::Tensor> halves_of(const at::Tensor& grad) {
  const at::Tensor halves = grad.view({grad.size(0), 2, grad.size(1) / 2}).transpose(0, 1).contiguous();
  return {halves.select(0, 0), halves.select(0, 1)};
}

/// The same by libtorch's operators, whose gradients have gradients.
at::Tensor layer_of_operators(const at::Tensor& x, const LayerWeights& weights, const LayerEdges& edges,
                              const LayerRule& rule) {
  const at::Tensor rows = rule.relu ? x.relu() : x, counts = edges.indptr.diff();
  const at::Tensor messages = rows.index_select(0, edges.indices.to(at::kLong));
  at::Tensor sums = at::zeros({edges.num_dst(), x.size(1)}, x.options())
                        .index_add(0, at::repeat_interleave(counts), messages);
  if (rule.mean) sums = sums.div(counts.clamp_min(1).unsqueeze(1).to(x.scalar_type()));
  const at::Tensor joined = at::cat({sums, rows.narrow(0, 0, edges.num_dst())}, 1);
  return at::linear(joined, at::cat({weights.neighbors, weights.root}, 1), weights.bias);
}

/// Positions of the tensors that may have gradients, among inputs and among saved tensors.
enum Input : std::size_t { kX, kNeighbors, kRoot, kBias, kNumInputs };

struct Saved {
  variable_list inputs;  // kNumInputs; no bias: undefined
  at::Tensor joined, weight;
  LayerEdges edges;
};

void save(AutogradContext* context, const Saved& saved) {
  variable_list all = saved.inputs;
  const LayerEdges& edges = saved.edges;
  all.insert(all.end(),
             {saved.joined, saved.weight, edges.indptr, edges.indices, edges.out_indptr, edges.out_indices});
  context->save_for_backward(std::move(all));
}

Saved saved_in(const AutogradContext* context) {
  const variable_list all = context->get_saved_variables();
  return {.inputs = {all.begin(), all.begin() + kNumInputs},
          .joined = all[4],
          .weight = all[5],
          .edges = {all[6], all[7], all[8], all[9]}};
}

/// Gradients of the wanted inputs, which have gradients themselves.
void set_differentiable(variable_list& result, const std::vector<Input>& wanted, const Saved& saved,
                        const LayerRule& rule, const at::Tensor& grad) {
  const variable_list& inputs = saved.inputs;
  const at::Tensor out =
      layer_of_operators(inputs[kX], {inputs[kNeighbors], inputs[kRoot], inputs[kBias]}, saved.edges, rule);
  variable_list of;
  for (const Input input : wanted) of.push_back(inputs[input]);
  variable_list found =
      torch::autograd::grad({out}, of, {grad}, /*retain_graph=*/true, /*create_graph=*/true);
  for (std::size_t i = 0; i < wanted.size(); ++i) result[wanted[i]] = std::move(found[i]);
}

struct JoinedLayer : Function<JoinedLayer> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& neighbors,
                            const at::Tensor& root, const std::optional<at::Tensor>& bias,
                            const LayerEdges& edges, const LayerRule& rule) {
    const at::Tensor joined = join(x, edges, rule), weight = at::cat({neighbors, root}, 1);
    save(context, {.inputs = {x, neighbors, root, bias.value_or(at::Tensor())},
                   .joined = joined,
                   .weight = weight,
                   .edges = edges});
    carry(context, rule);
    return at::linear(joined, weight, bias);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const Saved saved = saved_in(context);
    const LayerRule& rule = carried<LayerRule>(context);
    variable_list result(kNumInputs + 2);  // edges and rule have none
    std::vector<Input> wanted;
    for (const Input input : {kX, kNeighbors, kRoot, kBias})
      if (saved.inputs[input].defined() && context->needs_input_grad(input)) wanted.push_back(input);
    if (at::GradMode::is_enabled()) {
      set_differentiable(result, wanted, saved, rule, grads[0]);
      return result;
    }
    const at::Tensor grad = grads[0].contiguous();
    const auto wants = [&](Input input) { return std::ranges::find(wanted, input) != wanted.end(); };
    if (wants(kNeighbors) || wants(kRoot))
      std::tie(result[kNeighbors], result[kRoot]) = halves_of(grad.t().mm(saved.joined));
    if (wants(kBias)) result[kBias] = grad_of_bias(grad);
    if (wants(kX)) result[kX] = grad_of_rows(grad.mm(saved.weight), saved.inputs[kX], saved.edges, rule);
    return result;
  }
};

}  // namespace

at::Tensor joined_layer(const at::Tensor& x, const LayerWeights& weights, const LayerEdges& edges,
                        const LayerRule& rule) {
  TORCH_CHECK(STRATA_WITH_CUDA || x.is_cpu(), "x lies on ", x.device(),
              ", and Strata was built without CUDA");
  TORCH_CHECK(edges.indptr.is_contiguous() && edges.indices.is_contiguous(), "lists of edges have gaps");
  const c10::DeviceGuard guard(x.device());
  const std::optional<at::Tensor> bias = weights.bias.defined() ? std::optional(weights.bias) : std::nullopt;
  return JoinedLayer::apply(x.contiguous(), weights.neighbors, weights.root, bias, edges, rule);
}

}  // namespace strata::nn
