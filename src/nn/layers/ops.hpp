// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>

#include "kernels/kernels.hpp"
#include "strata/nn/model.hpp"
#include "strata/sampling/block.hpp"

/// Differentiable operations over tensors and Blocks, on the device of the tensors. A block's arrays must
/// stay valid until the backward pass is over.
namespace strata::nn {

/// Weights of a sum over a block: out[v] = row[v] * sum of col[u] * x[u] + self[v] * x[v]. An undefined
/// tensor means no weights; without `self` there is no self part. With `skips_loops`, edges from a node to
/// itself are left out.
struct BlockScales {
  at::Tensor row = {};   ///< [num_dst]
  at::Tensor col = {};   ///< [num_src]
  at::Tensor self = {};  ///< [num_dst]
  bool skips_loops = false;
  std::shared_ptr<const void> keep_alive = {};  ///< what owns the block's arrays, if nobody else does
};

BlockScales mean_scales(const sampling::Block& block);
BlockScales gcn_scales(const sampling::Block& block);  ///< throws Error without Block::src_in_degrees

/// The weighted sum of `scales` over the block; x [num_src, cols] -> [num_dst, cols].
at::Tensor aggregate(const at::Tensor& x, const sampling::Block& block, const BlockScales& scales);

/// The same with a result of type `type`, f32 or bf16; sums are f32.
at::Tensor aggregate_to(at::ScalarType type, const at::Tensor& x, const sampling::Block& block,
                        const BlockScales& scales);

/// x weight^T, computed and returned in `type`; the gradient of the weight is f32.
at::Tensor map_rows(at::ScalarType type, const at::Tensor& x, const at::Tensor& weight);

/// mean(x) neighbor^T + x_dst root^T in one node of the autograd graph, which avoids the zero-filled gradient
/// of x_dst. Means, products and the result have type `type`.
at::Tensor sage_convolution(at::ScalarType type, const at::Tensor& x, const at::Tensor& neighbor,
                            const at::Tensor& root, const sampling::Block& block);

/// Applies what follows a hidden layer, in place: dropout(relu(z + bias)). z is f32 or bf16, the bias is f32 or
/// undefined.
at::Tensor bias_relu_dropout(const at::Tensor& z, const at::Tensor& bias, const DropoutRule& dropout);

/// The same without a gradient of its own.
void activate_hidden(const at::Tensor& z, const at::Tensor& bias, const DropoutRule& dropout);

/// z + bias in f32; in place if z is f32. An undefined bias adds nothing.
at::Tensor add_bias(const at::Tensor& z, const at::Tensor& bias);

at::Tensor dropout(const at::Tensor& x, const DropoutRule& rule);

/// The rule for the nodes of a block (its src nodes, which begin with the dst nodes) at distance `hop` from
/// the seeds. It keeps everything outside training. Throws Error without original ids.
DropoutRule make_dropout(double probability, const Pass& pass, int hop, const sampling::Block& block);

/// Throws Error if x does not fit the block in its rows, type or device.
void check_input(const at::Tensor& x, const sampling::Block& block);

}  // namespace strata::nn
