// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include "strata/tensor/chunk_tensor.hpp"

namespace strata::train {

/// One stratum of a ChunkTensor as a torch tensor [view.rows, spec.cols] of the tensor's type, in place, on
/// the device where the stratum lies. Rows are in the order of the stratum (see ChunkTensor::views).
///
/// A view: it keeps nothing alive, and must not be used after the ChunkTensor's close(). The stride of rows
/// is their pitch, which is longer than a row in a padded tensor. i8 elements are as stored, without
/// TensorSpec::scale. Other ranks and GPUs see what is written through it after ChunkTensor::fence().
at::Tensor as_tensor(const tensor::TensorSpec& spec, const tensor::StratumView& view);

}  // namespace strata::train
