// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "growing.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/kernels.cuh"
#include "strata/cuda/stream.hpp"
#include "strata/util/types.hpp"

/// Device code that all kernels of the module share, beside launch.cuh: marks of nodes and scans.
namespace strata::sampling {

using cuda::add_to_total;
using cuda::blocks_for;
using cuda::first_item;
using cuda::item_stride;
using cuda::kAllLanes;
using cuda::kThreads;
using cuda::kWarp;
using cuda::kWarpsPerBlock;
using cuda::lane_index;
using cuda::lanes_below;
using cuda::list_of;

/// Sets the bit of a node.
__device__ inline void mark(std::uint32_t* words, NodeId node) {
  std::uint32_t* word = words + node / 32;
  const std::uint32_t bit = 1u << (static_cast<std::uint32_t>(node) % 32u);
  if ((__ldcg(word) & bit) == 0) atomicOr(word, bit);  // most nodes were marked before
}

/// Turns counts into offsets, in place. An owner of its scratch memory.
class DeviceScan {
 public:
  explicit DeviceScan(Device device) : device_(device) {}
  /// Sets values[i] to the sum of values[0 .. i) for i < size.
  void exclusive(Count* values, Count size, const cuda::Stream& stream);

 private:
  Device device_;
  cuda::Array<std::byte> temporary_;
};

}  // namespace strata::sampling
