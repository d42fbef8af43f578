// SPDX-License-Identifier: Apache-2.0
#include "strata/nn/grouped_product.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_grouped_mm.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>

#include <span>

#include "layers/op_support.hpp"
#if STRATA_WITH_CUDA
#include <ATen/cuda/CUDAContext.h>

#include "kernels/grouped_product.hpp"
#endif

namespace strata::nn {
namespace {

/// Calls visit(group, first row, rows) for all groups that have rows.
template <typename Visit>
void for_each_group(const at::Tensor& ends, Visit&& visit) {
  std::int64_t first = 0, group = 0;
  for (const std::int32_t end : std::span(ends.const_data_ptr<std::int32_t>(), at(ends.size(0)))) {
    if (end > first) visit(group, first, end - first);
    first = end, ++group;
  }
}

bool has_grouped_mm([[maybe_unused]] const at::Tensor& rows) {
#if STRATA_WITH_CUDA
  return rows.is_cuda() && rows.scalar_type() == at::kBFloat16 &&
         at::cuda::getDeviceProperties(rows.get_device())->major >= 9;
#else
  return false;
#endif
}

/// The same with columns of 0, so that rows are multiples of 16 bytes, as at::_grouped_mm wants them.
at::Tensor with_even_columns(const at::Tensor& matrix) {
  const std::int64_t missing = -matrix.size(-1) & 7;
  return missing == 0 ? matrix : at::constant_pad_nd(matrix, {0, missing});
}
/// The same of the rows of [G, in, out], too.
at::Tensor with_even_sides(const at::Tensor& weights) {
  const std::int64_t rows = -weights.size(1) & 7, cols = -weights.size(2) & 7;
  return rows == 0 && cols == 0 ? weights : at::constant_pad_nd(weights, {0, cols, 0, rows});
}

/// rows [M, in] by weights [G, in, out], or their transposes [G, out, in].
at::Tensor product(const at::Tensor& rows, const at::Tensor& weights, bool transposed,
                   const at::Tensor& ends) {
  const at::Tensor by = transposed ? weights.transpose(1, 2) : weights;
  if (rows.is_cpu()) {
    const at::Tensor out = at::zeros({rows.size(0), by.size(2)}, rows.options());
    for_each_group(ends, [&](std::int64_t group, std::int64_t first, std::int64_t count) {
      at::Tensor part = out.narrow(0, first, count);
      at::mm_out(part, rows.narrow(0, first, count), by[group]);
    });
    return out;
  }
  if (has_grouped_mm(rows))
    return at::_grouped_mm(with_even_columns(rows), with_even_sides(by), ends).narrow(1, 0, by.size(2));
#if STRATA_WITH_CUDA
  const at::Tensor in = rows.to(at::kFloat).contiguous(), of = weights.to(at::kFloat).contiguous();
  const at::Tensor out = at::empty({rows.size(0), by.size(2)}, in.options());
  grouped_product_cuda({.rows = rows.size(0),
                        .in_cols = by.size(1),
                        .out_cols = by.size(2),
                        .groups = static_cast<int>(ends.size(0)),
                        .ends = ends.const_data_ptr<std::int32_t>(),
                        .in = in.const_data_ptr<float>(),
                        .weights = of.const_data_ptr<float>(),
                        .transposed = transposed,
                        .out = out.mutable_data_ptr<float>()},
                       stream_of(rows));
  return out.to(rows.scalar_type());
#else
  return {};
#endif
}

#if STRATA_WITH_CUDA
/// weight_grad() of bfloat16: the products of pieces of the groups, which are then added.
at::Tensor weight_grad_by_pieces(const at::Tensor& rows, const at::Tensor& grads, const at::Tensor& ends) {
  constexpr Count kMostGroups = 1023;  // of at::_grouped_mm
  GroupPieces pieces{.rows = rows.size(0),
                     .groups = static_cast<int>(ends.size(0)),
                     .ends = ends.const_data_ptr<std::int32_t>(),
                     .piece_rows = 8192};
  while (pieces.count() > kMostGroups && pieces.piece_rows < pieces.rows) pieces.piece_rows *= 2;
  const at::Tensor piece_ends = at::empty({pieces.count()}, ends.options());
  find_piece_ends_cuda(pieces, piece_ends.mutable_data_ptr<std::int32_t>(), stream_of(rows));
  const at::Tensor products =
      at::_grouped_mm(with_even_columns(rows).t(), with_even_columns(grads), piece_ends);
  at::Tensor out = at::empty({ends.size(0), products.size(1), products.size(2)}, products.options());
  add_pieces_cuda({.pieces = pieces,
                   .size = products.size(1) * products.size(2),
                   .in = static_cast<const Bf16*>(products.const_data_ptr()),
                   .out = static_cast<Bf16*>(out.mutable_data_ptr())},
                  stream_of(rows));
  return out.narrow(1, 0, rows.size(1)).narrow(2, 0, grads.size(1));
}
#endif

/// [G, in, out]: the sums over each group's rows of rows^T grads.
at::Tensor weight_grad(const at::Tensor& rows, const at::Tensor& grads, const at::Tensor& ends) {
  const std::int64_t groups = ends.size(0), in_cols = rows.size(1), out_cols = grads.size(1);
  if (rows.is_cpu()) {
    const at::Tensor out = at::zeros({groups, in_cols, out_cols}, rows.options());
    for_each_group(ends, [&](std::int64_t group, std::int64_t first, std::int64_t count) {
      at::Tensor part = out[group];
      at::mm_out(part, rows.narrow(0, first, count).t(), grads.narrow(0, first, count));
    });
    return out;
  }
#if STRATA_WITH_CUDA
  if (has_grouped_mm(rows)) return weight_grad_by_pieces(rows, grads, ends);
  const at::Tensor in = rows.to(at::kFloat).contiguous(), of = grads.to(at::kFloat).contiguous();
  const at::Tensor out = at::empty({groups, in_cols, out_cols}, in.options());
  GroupedWeightGrad grad{.rows = rows.size(0),
                         .in_cols = in_cols,
                         .out_cols = out_cols,
                         .groups = static_cast<int>(groups),
                         .ends = ends.const_data_ptr<std::int32_t>(),
                         .in = in.const_data_ptr<float>(),
                         .grads = of.const_data_ptr<float>(),
                         .out = out.mutable_data_ptr<float>()};
  const at::Tensor scratch = at::empty({grad.pieces().count(), in_cols, out_cols}, in.options());
  grad.scratch = scratch.mutable_data_ptr<float>();
  grouped_weight_grad_cuda(grad, stream_of(rows));
  return out.to(rows.scalar_type());
#else
  return {};
#endif
}

struct Product : Function<Product> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& rows, const at::Tensor& weights,
                            const at::Tensor& ends) {
    context->save_for_backward({rows, weights, ends});
    return product(rows, weights, false, ends);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "a grouped product has no gradients of its gradients");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor grad = grads[0].contiguous();
    variable_list result(3);
    if (context->needs_input_grad(0)) result[0] = product(grad, saved[1], true, saved[2]);
    if (context->needs_input_grad(1)) result[1] = weight_grad(saved[0], grad, saved[2]);
    return result;
  }
};

}  // namespace

at::Tensor grouped_product(const at::Tensor& rows, const at::Tensor& weights, const at::Tensor& ends) {
  TORCH_CHECK(rows.dim() == 2 && weights.dim() == 3 && rows.size(1) == weights.size(1), "rows ", rows.sizes(),
              " and weights ", weights.sizes(), "; give [M, in] and [G, in, out]");
  TORCH_CHECK(ends.dim() == 1 && ends.size(0) == weights.size(0) && ends.scalar_type() == at::kInt,
              "ends are ", ends.sizes(), " of ", ends.scalar_type(), "; give int32 [G]");
  TORCH_CHECK(rows.scalar_type() == weights.scalar_type() &&
                  (rows.scalar_type() == at::kFloat || rows.scalar_type() == at::kBFloat16),
              "rows of ", rows.scalar_type(), " and weights of ", weights.scalar_type(),
              "; convert both to float32 or bfloat16");
  TORCH_CHECK(rows.device() == weights.device() && rows.device() == ends.device(),
              "rows, weights and ends lie on ", rows.device(), ", ", weights.device(), " and ",
              ends.device());
  TORCH_CHECK(STRATA_WITH_CUDA || rows.is_cpu(), "rows lie on ", rows.device(),
              ", and Strata was built without CUDA");
  const c10::DeviceGuard guard(rows.device());
  return Product::apply(rows.contiguous(), weights.contiguous(), ends.contiguous());
}

}  // namespace strata::nn
