// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <string>

#include "strata/cuda/buffer.hpp"
#include "strata/cuda/copy.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::sampling {

/// Makes room for `size` elements in `array`, on the stream's device; the first `keep` elements stay. Grows
/// by at least a quarter, so that slowly growing sizes seldom reallocate. Waits for `stream` if it must keep
/// elements.
template <typename T>
void reserve(cuda::Array<T>& array, cuda::Memory memory, Count size, Count keep, const std::string& what,
             const cuda::Stream& stream) {
  if (size <= array.size()) return;
  cuda::Array<T> grown(memory, std::max(size, array.size() + array.size() / 4), what, stream.device());
  if (keep > 0) {
    cuda::copy_async(grown.data(), array.data(), static_cast<std::size_t>(keep) * sizeof(T), stream);
    stream.synchronize();
  }
  array = std::move(grown);
}

}  // namespace strata::sampling
