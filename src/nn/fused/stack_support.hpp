// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/ops/mm.h>

#include "fused/sage_kernels.hpp"
#include "layers/op_support.hpp"

/// What models share that train in one node of the autograd graph.
namespace strata::nn {

inline InEdges lists_of(const sampling::Block& block) {
  return {.indptr = block.indptr, .counts = block.counts, .stride = block.stride, .indices = block.indices};
}

/// The matrix product a b in f32; a and b are f32 or bf16.
inline at::Tensor product_f32(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == at::kFloat ? a.mm(b) : at::mm(a, b, at::kFloat);
}

}  // namespace strata::nn
