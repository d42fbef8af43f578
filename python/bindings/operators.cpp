// SPDX-License-Identifier: Apache-2.0
// This is the library strata/_operators.so, loaded by strata.nn: layers as operators of torch.ops.strata.
#include <torch/library.h>

#include "strata/nn/grouped_product.hpp"
#include "strata/nn/joined_layer.hpp"

namespace strata::python {
namespace {

using MaybeTensor = std::optional<at::Tensor>;

at::Tensor joined_layer(const at::Tensor& x, const at::Tensor& neighbors, const at::Tensor& root,
                        const MaybeTensor& bias, const at::Tensor& indptr, const at::Tensor& indices,
                        const MaybeTensor& out_indptr, const MaybeTensor& out_indices, bool mean, bool relu) {
  const at::Tensor none;
  return nn::joined_layer(x, {.neighbors = neighbors, .root = root, .bias = bias.value_or(none)},
                          {.indptr = indptr,
                           .indices = indices,
                           .out_indptr = out_indptr.value_or(none),
                           .out_indices = out_indices.value_or(none)},
                          {.mean = mean, .relu = relu});
}

TORCH_LIBRARY_FRAGMENT(strata, m) {
  m.def(
      "joined_layer(Tensor x, Tensor neighbors, Tensor root, Tensor? bias, Tensor indptr, Tensor indices, "
      "Tensor? out_indptr, Tensor? out_indices, bool mean, bool relu) -> Tensor",
      &joined_layer);
  m.def("grouped_product(Tensor rows, Tensor weights, Tensor ends) -> Tensor", &nn::grouped_product);
}

}  // namespace
}  // namespace strata::python
