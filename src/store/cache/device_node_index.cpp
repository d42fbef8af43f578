// SPDX-License-Identifier: Apache-2.0
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/store/halo.hpp"

namespace strata::store {

DeviceNodeIndex::DeviceNodeIndex(const NodeIndex* index, Device device) {
  if (index == nullptr || index->size() == 0) return;
  view_ = index->view();
  const cuda::Stream stream = device.is_cuda() ? cuda::Stream(device) : cuda::Stream();
  const auto copied = [&]<typename T>(const T* values, Count count, cuda::Array<T>& copy) -> const T* {
    copy = cuda::Array<T>(cuda::memory_on(device), count, "index of the halo", device);
    cuda::copy_async(copy.data(), values, at(count) * sizeof(T), stream);
    return copy.data();
  };
  view_.first = copied(view_.first, view_.num_buckets + 1, first_);
  view_.nodes = copied(view_.nodes, view_.size, nodes_);
  view_.positions = copied(view_.positions, view_.size, positions_);
  stream.synchronize();
}

}  // namespace strata::store
