// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <string>
#include <utility>

#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::sampling {

/// Does Array::reserve, but the first `keep` elements stay. Waits for `stream` if it must keep any.
template <typename T>
void reserve(cuda::Array<T>& array, cuda::Memory memory, Count size, Count keep, const std::string& what,
             const cuda::Stream& stream) {
  if (size <= array.size()) return;
  cuda::Array<T> old;
  if (keep > 0) std::swap(old, array);
  array.reserve(memory, std::max(size, old.size() + old.size() / 4), what, stream.device());
  if (keep > 0) {
    cuda::copy_async(array.data(), old.data(), at(keep) * sizeof(T), stream);
    stream.synchronize();
  }
}

}  // namespace strata::sampling
