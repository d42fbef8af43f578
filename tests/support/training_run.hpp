// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/ops/empty.h>
#include <torch/nn/module.h>

#include <memory>
#include <random>
#include <string>

#include "checkpoint/checkpoint.hpp"

namespace strata::test {

inline at::Tensor random_tensor(at::IntArrayRef shape, std::mt19937& random) {
  at::Tensor tensor = at::empty(shape, at::kFloat);
  std::normal_distribution<float> normal;
  for (std::int64_t i = 0; i < tensor.numel(); ++i) tensor.mutable_data_ptr<float>()[i] = normal(random);
  return tensor;
}

class TwoTensors : public torch::nn::Module {
 public:
  TwoTensors(std::int64_t width, std::mt19937& random) {
    register_parameter("weight", random_tensor({width, 5}, random));
    register_parameter("bias", random_tensor({width}, random));
    register_buffer("mean", random_tensor({width}, random));
  }
};

/// All that a checkpoint holds, filled at random.
struct TrainingRun {
  explicit TrainingRun(std::uint32_t seed, std::int64_t width = 3,
                       nn::OptimizerKind kind = nn::OptimizerKind::adam)
      : random(seed),
        model(width, random),
        parameters(model, at::kCPU),
        optimizer(nn::make_optimizer({.kind = kind}, parameters.values())) {}

  void train(int steps, std::uint32_t seed) {
    std::mt19937 gradients(seed);
    for (int s = 0; s < steps; ++s)
      optimizer->step(parameters.values(), random_tensor(parameters.values().sizes(), gradients));
  }
  train::CheckpointParts parts() { return {&parameters, optimizer.get(), &progress, signature, &model}; }

  std::mt19937 random;
  TwoTensors model;
  train::FlatParameters parameters;
  std::unique_ptr<nn::Optimizer> optimizer;
  train::ProgressState progress;
  std::string signature = R"({"hidden":3,"model":"sage"})";
};

}  // namespace strata::test
