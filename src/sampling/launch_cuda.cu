// SPDX-License-Identifier: Apache-2.0
#include <cub/device/device_scan.cuh>

#include "launch_cuda.cuh"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::sampling {

void DeviceScan::exclusive(Count* values, Count size, const cuda::Stream& stream) {
  std::size_t bytes = 0;
  cuda::check(cub::DeviceScan::ExclusiveSum(nullptr, bytes, values, values, size, stream.get()),
              "cub::DeviceScan");
  reserve(temporary_, cuda::Memory::device, static_cast<Count>(bytes), 0, "scan of counts", stream);
  cuda::check(cub::DeviceScan::ExclusiveSum(temporary_.data(), bytes, values, values, size, stream.get()),
              "cub::DeviceScan");
}

}  // namespace strata::sampling
