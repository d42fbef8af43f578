// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace strata::cuda {

/// Priority of a Stream whose kernels go before those of other streams; CUDA clamps it to the GPU's range.
inline constexpr int kHighestPriority = -64;

}  // namespace strata::cuda
