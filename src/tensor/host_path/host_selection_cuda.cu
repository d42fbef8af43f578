// SPDX-License-Identifier: Apache-2.0
#include <thrust/iterator/counting_iterator.h>

#include <algorithm>
#include <cub/device/device_select.cuh>

#include "host_path/host_selection.hpp"
#include "row_access_cuda.cuh"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/check.cuh"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::tensor {
namespace {

/// Whether the row of entry i of a list lies in the host stratum.
struct IsHostEntry {
  RowTable table;
  RowList list;

  __device__ bool operator()(std::uint32_t i) const {
    const Count begin = list.begin != nullptr ? *list.begin : 0;
    const Count end = list.end != nullptr ? *list.end : list.bound;
    if (Count{i} < begin || Count{i} >= end) return false;
    const Count row = id_of(list, i) - list.first;
    return is_row(table, row) && location_of(table, row).stratum == Stratum::host;
  }
};

__global__ void __launch_bounds__(kThreads)
    locate_entries(const __grid_constant__ RowTable table, const __grid_constant__ RowList list,
                   const std::uint32_t* entries, const Count* count, std::int64_t* rows,
                   std::uint32_t* positions) {
  for (Count i = blockIdx.x * Count{kThreads} + threadIdx.x; i < *count; i += Count{gridDim.x} * kThreads) {
    const Count entry = entries[i];
    rows[i] = location_of(table, id_of(list, entry) - list.first).row;
    positions[i] = static_cast<std::uint32_t>(position_of(list, entry));
  }
}

std::size_t temporary_bytes(Count bound) {
  std::size_t bytes = 0;
  cuda::check(cub::DeviceSelect::If(nullptr, bytes, thrust::counting_iterator<std::uint32_t>(0),
                                    static_cast<std::uint32_t*>(nullptr), static_cast<Count*>(nullptr), bound,
                                    IsHostEntry{}),
              "cub::DeviceSelect::If");
  return bytes;
}

}  // namespace

void HostSelection::reserve(Count bound) {
  const cuda::DeviceGuard guard(device_);
  const char* what = "the choice of host rows";
  capacity_ = 0;  // in case an allocation fails
  entries_ = cuda::Array<std::uint32_t>(cuda::Memory::device, bound, what, device_);
  positions_ = cuda::Array<std::uint32_t>(cuda::Memory::device, bound, what, device_);
  rows_ = cuda::Array<std::int64_t>(cuda::Memory::device, bound, what, device_);
  temporary_ = cuda::Buffer(cuda::Memory::device, temporary_bytes(bound), what, device_);
  capacity_ = bound;
}

RowList HostSelection::select(const RowTable& table, const RowList& list, const cuda::Stream& stream) {
  constexpr Count kBlocks = 512;
  const cuda::DeviceGuard guard(device_);
  std::size_t bytes = temporary_.bytes();
  cuda::check(cub::DeviceSelect::If(temporary_.data(), bytes, thrust::counting_iterator<std::uint32_t>(0),
                                    entries_.data(), count_.data(), list.bound, IsHostEntry{table, list},
                                    stream.get()),
              "cub::DeviceSelect::If");
  const Count blocks = std::clamp<Count>((list.bound + kThreads - 1) / kThreads, 1, kBlocks);
  locate_entries<<<static_cast<unsigned>(blocks), kThreads, 0, stream.get()>>>(
      table, list, entries_.data(), count_.data(), rows_.data(), positions_.data());
  cuda::check_launch("locate_entries");
  return {.ids = rows_.data(), .bound = list.bound, .end = count_.data(), .positions = positions_.data()};
}

}  // namespace strata::tensor
