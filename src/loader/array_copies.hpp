// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>

#include "strata/cuda/stream.hpp"
#include "strata/util/types.hpp"

namespace strata::loader {

/// Between memory of one device; addresses and bytes are multiples of 4.
struct ArrayCopy {
  void* to = nullptr;
  const void* from = nullptr;
  Count bytes = 0;
};

/// Copies arrays that do not overlap: at once on the cpu, else asynchronously on `stream`, in one launch for
/// every 64 of them. A cudaMemcpyAsync for each would cost the caller more than the copies take.
void copy_arrays(std::span<const ArrayCopy> copies, const cuda::Stream& stream);
void copy_arrays_on_gpu(std::span<const ArrayCopy> copies, const cuda::Stream& stream);

}  // namespace strata::loader
