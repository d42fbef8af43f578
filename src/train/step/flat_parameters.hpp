// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include "strata/util/types.hpp"

namespace torch::nn {
class Module;
}

namespace strata::train {

/// The values that follow the gradients in the sum of a step over all ranks.
struct StepTail {
  float loss = 0, hits = 0, seeds = 0, stop = 0;
  static constexpr Count kSize = 4;
};

/// A model's parameters and gradients as two flat f32 buffers on one device, so that a single all-reduce and
/// a single optimizer step suffice. The model's tensors become views of the buffers, in the order of
/// named_parameters().
class FlatParameters {
 public:
  FlatParameters(torch::nn::Module& model, at::Device device);

  const at::Tensor& values() const { return values_; }  ///< [count]
  at::Tensor gradients() const;                         ///< [count], a view
  at::Tensor tail() const;                              ///< [StepTail::kSize], a view after the gradients
  const at::Tensor& reduced() const { return gradients_and_tail_; }  ///< what the all-reduce sums

 private:
  Count count_ = 0;
  at::Tensor values_, gradients_and_tail_;
};

}  // namespace strata::train
