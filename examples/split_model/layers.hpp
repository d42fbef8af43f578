// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/nn/module.h>

#include "sampler.hpp"
#include "strata/rpc/agent.hpp"

namespace example {

struct LayerOptions {
  std::int64_t in_cols = 0, out_cols = 0;
  std::uint64_t seed = 0;  ///< of the weights, which are the same wherever the layer lies
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(in_cols, out_cols, seed);
  }
};

/// relu(W [row of the node | mean of its neighbors' rows] + b): GraphSAGE.
class SageLayer : public torch::nn::Module {
 public:
  explicit SageLayer(const LayerOptions& options);
  /// Fetches the rows from wherever the layer before left them.
  Rows forward(const strata::rpc::Ref<Rows>& inputs) const;

 private:
  at::Tensor weight_, bias_;
};

/// Scores of the classes: W x + b.
class Head : public torch::nn::Module {
 public:
  explicit Head(const LayerOptions& options);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  at::Tensor weight_, bias_;
};

}  // namespace example
