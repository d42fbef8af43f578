// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/nn/module.h>

#include <vector>

#include "strata/comm/communicator.hpp"
#include "strata/nn/weights.hpp"

/// A model's parameters and buffers across ranks.
namespace strata::train {

/// The model's buffers (what it learns without gradients, such as the running mean of a batch norm), by
/// reference.
std::vector<nn::NamedTensor> buffers_of(const torch::nn::Module& model);

/// Copies that later training does not change.
std::vector<nn::NamedTensor> copies_of(const std::vector<nn::NamedTensor>& tensors);

/// Copies the values of `from` into tensors of the same names and shapes.
void copy_values(const std::vector<nn::NamedTensor>& to, const std::vector<nn::NamedTensor>& from);

/// Gives every rank the same buffers: floating-point ones become the mean over the ranks, all others those of
/// the first rank. Collective.
void agree_on_buffers(const torch::nn::Module& model, const comm::Communicator& communicator);

/// Throws Error on every rank, naming the ranks and the first tensor whose bits differ from the first rank's.
/// Collective.
void require_equal_weights(const torch::nn::Module& model, const comm::Communicator& communicator);

}  // namespace strata::train
