// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "compaction/transpose_cpu.hpp"
#include "launch_cuda.cuh"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::sampling {

/// A block on the device. The host knows only bounds of its sizes.
struct DeviceBlock {
  const Count* num_dst = nullptr;    ///< on the device
  const Count* num_edges = nullptr;  ///< on the device
  Count src_bound = 0, entry_bound = 0;
  const Count* indptr = nullptr;  ///< null with a stride
  const std::int32_t* indices = nullptr;
  int stride = 0;                        ///< with a stride
  const std::int32_t* counts = nullptr;  ///< with a stride
};

/// Transposes blocks on a GPU by a stable sort of the edges by src local id, without atomics. An owner of its
/// scratch memory.
class DeviceTranspose {
 public:
  explicit DeviceTranspose(Device device) : device_(device) {}
  /// Makes room for blocks of `num_entries` entries.
  void reserve_edges(Count num_entries, const cuda::Stream& stream);
  /// Asynchronous on `stream`; allocates nothing if there is room. Src nodes up to the bound get a list.
  void run(const DeviceBlock& block, const TransposeOutput& out, const cuda::Stream& stream);

 private:
  Device device_;
  cuda::Array<std::int32_t> src_of_edge_, dst_of_edge_, sorted_src_;
  cuda::Array<std::byte> temporary_;
};

}  // namespace strata::sampling
