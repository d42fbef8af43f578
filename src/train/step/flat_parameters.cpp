// SPDX-License-Identifier: Apache-2.0
#include "step/flat_parameters.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/module.h>

namespace strata::train {

FlatParameters::FlatParameters(torch::nn::Module& model, at::Device device) {
  for (const at::Tensor& parameter : model.parameters()) count_ += parameter.numel();
  const auto options = at::TensorOptions().dtype(at::kFloat).device(device);
  values_ = at::empty({count_}, options);
  gradients_and_tail_ = at::zeros({count_ + StepTail::kSize}, options);
  Count offset = 0;
  for (at::Tensor& parameter : model.parameters()) {
    const Count size = parameter.numel();
    at::Tensor value = values_.narrow(0, offset, size).view(parameter.sizes());
    value.copy_(parameter.detach());
    parameter.set_data(value);
    parameter.mutable_grad() = gradients_and_tail_.narrow(0, offset, size).view(parameter.sizes());
    offset += size;
  }
}

at::Tensor FlatParameters::gradients() const { return gradients_and_tail_.narrow(0, 0, count_); }
at::Tensor FlatParameters::tail() const { return gradients_and_tail_.narrow(0, count_, StepTail::kSize); }

}  // namespace strata::train
