// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "strata/cuda/buffer.hpp"
#include "strata/store/halo.hpp"

namespace strata::store {

/// A NodeIndex in the memory of a device. An owner.
class DeviceNodeIndex {
 public:
  /// Waits until the copy is complete. Null, or an index without nodes: view() finds none.
  DeviceNodeIndex(const NodeIndex* index, Device device);

  const NodeIndexView& view() const { return view_; }

 private:
  cuda::Array<std::uint32_t> first_;
  cuda::Array<NodeId> nodes_;
  cuda::Array<std::int32_t> positions_;
  NodeIndexView view_;
};

}  // namespace strata::store
