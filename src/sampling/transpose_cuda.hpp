#pragma once
#include "launch_cuda.cuh"
#include "strata/sampling/block.hpp"
#include "transpose_cpu.hpp"

namespace strata::sampling {

/// transpose() of blocks on a device: a stable sort of the edges by src local id, without atomics. Keeps its
/// scratch memory.
class DeviceTranspose {
 public:
  explicit DeviceTranspose(Device device) : device_(device) {}
  /// Makes room for blocks of so many edges.
  void reserve_edges(Count num_edges, const cuda::Stream& stream);
  /// Asynchronous on `stream`; allocates nothing where there is room. The sizes of the block are known on the
  /// host.
  void run(const Block& block, const TransposeOutput& out, const cuda::Stream& stream);

 private:
  Device device_;
  cuda::Array<std::int32_t> dst_of_edge_, sorted_src_;
  cuda::Array<std::byte> temporary_;
};

}  // namespace strata::sampling
