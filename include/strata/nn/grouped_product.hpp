// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

namespace strata::nn {

/// out[row] = rows[row] weights[g] for the rows [ends[g - 1], ends[g]) of each group g; rows behind the last
/// group become 0. One launch, however many groups there are. Differentiable in rows and weights; groups
/// without rows have gradients of 0.
///
/// rows [M, in], weights [G, in, out], both float32 or both bfloat16, ends int32 [G], ascending, on one device;
/// groups begin at multiples of 8 rows if they are bfloat16 on a GPU. Asynchronous on libtorch's current
/// stream; the host never reads a GPU's `ends`. Sums are float32, without TF32. bfloat16 on Hopper and newer
/// GPUs is at::_grouped_mm. Throws c10::Error for other types and shapes.
at::Tensor grouped_product(const at::Tensor& rows, const at::Tensor& weights, const at::Tensor& ends);

}  // namespace strata::nn
