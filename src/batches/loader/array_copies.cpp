// SPDX-License-Identifier: Apache-2.0
#include "loader/array_copies.hpp"

#include <cstring>

namespace strata::batches {

void copy_arrays(std::span<const ArrayCopy> copies, [[maybe_unused]] const cuda::Stream& stream) {
#if STRATA_WITH_CUDA
  if (stream.device().is_cuda()) return copy_arrays_on_gpu(copies, stream);
#endif
  for (const ArrayCopy& copy : copies)
    if (copy.bytes > 0) std::memcpy(copy.to, copy.from, at(copy.bytes));
}

}  // namespace strata::batches
