// SPDX-License-Identifier: Apache-2.0
#include "layers.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/embedding_bag.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/rand.h>

#include <cmath>

namespace example {
namespace {

struct Weights {
  at::Tensor weight, bias;
};

/// As torch.nn.Linear begins.
Weights initial_weights(std::int64_t in_cols, std::int64_t out_cols, std::uint64_t seed) {
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const double bound = 1 / std::sqrt(static_cast<double>(in_cols));
  const auto uniform = [&](at::IntArrayRef sizes) {
    return at::rand(sizes, generator, at::kFloat).mul_(2 * bound).sub_(bound);
  };
  at::Tensor weight = uniform({out_cols, in_cols});
  return {.weight = std::move(weight), .bias = uniform({out_cols})};
}

at::Tensor mean_of_neighbors(const at::Tensor& x, const Hop& hop) {
  constexpr int kMean = 1;
  return std::get<0>(at::embedding_bag(x, hop.sources, hop.begins, /*scale_grad_by_freq=*/false, kMean,
                                       /*sparse=*/false, {}, /*include_last_offset=*/true));
}

}  // namespace

SageLayer::SageLayer(const LayerOptions& options) {
  const Weights initial = initial_weights(2 * options.in_cols, options.out_cols, options.seed);
  weight_ = register_parameter("weight", initial.weight);
  bias_ = register_parameter("bias", initial.bias);
}

Rows SageLayer::forward(const strata::rpc::Ref<Rows>& inputs) const {
  Rows rows = inputs.to_here().to(weight_.device());
  const Hop& hop = rows.hops.front();
  const at::Tensor both =
      at::cat({rows.values.narrow(0, 0, hop.num_nodes), mean_of_neighbors(rows.values, hop)}, 1);
  rows.values = at::linear(both, weight_, bias_).relu();
  rows.hops.erase(rows.hops.begin());
  return rows;
}

Head::Head(const LayerOptions& options) {
  const Weights initial = initial_weights(options.in_cols, options.out_cols, options.seed);
  weight_ = register_parameter("weight", initial.weight);
  bias_ = register_parameter("bias", initial.bias);
}

at::Tensor Head::forward(const at::Tensor& x) const { return at::linear(x, weight_, bias_); }

}  // namespace example
