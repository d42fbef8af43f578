// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <torch/nn/module.h>

#include <cstdint>

#include "measuring.hpp"

/// The pipelines that the benchmarks measure.
namespace strata::benchmarks {

constexpr std::int64_t kMicroBatches = 8;

/// A stage.
class Products : public torch::nn::Module {
 public:
  explicit Products(std::int64_t width)
      : weight_(register_parameter("weight", at::full({width, width}, 1e-3F))) {}
  at::Tensor forward(const at::Tensor& x) const {
    at::set_num_threads(1);  // of products that this thread, one of the agent's, begins
    at::Tensor y = x;
    for (int i = 0; i < 4; ++i) y = at::mm(y, weight_);
    return y;
  }

 private:
  at::Tensor weight_;
};

/// The best possible time of a pipeline of two as a share of its time: one stage is a micro-batch ahead.
inline double of_ideal(const Times& stage, const Times& pipeline) {
  return stage.median_us * (kMicroBatches + 1) / kMicroBatches / pipeline.median_us;
}

}  // namespace strata::benchmarks
