// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "strata/cuda/buffer.hpp"
#include "strata/cuda/copy.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::train {

/// Values that the host writes and a device reads: in place on the cpu, as a copy on a GPU. An owner.
template <typename T>
class Staged {
 public:
  std::vector<T> values;

  /// The address of the values on `device`, from this point of `stream` on, until the next call.
  const T* on(Device device, const std::string& what, const cuda::Stream& stream) {
    if (!device.is_cuda()) return values.data();
    const Count size = std::ssize(values);
    if (copy_.size() < size) {
      copy_ = {};
      copy_ = cuda::Array<T>(cuda::Memory::device, size, what, device);
    }
    cuda::copy_async(copy_.data(), values.data(), values.size() * sizeof(T), stream);
    return copy_.data();
  }

 private:
  cuda::Array<T> copy_;
};

}  // namespace strata::train
