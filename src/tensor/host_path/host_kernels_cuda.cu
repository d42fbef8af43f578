// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cub/device/device_radix_sort.cuh>

#include "host_path/host_flags_cuda.cuh"
#include "host_path/host_kernels_cuda.hpp"
#include "row_access_cuda.cuh"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/check.cuh"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::tensor {
namespace {

/// The row that an entry names, or -1.
__device__ Count row_or_none(const RowTable& table, const RowList& list, Count entry) {
  const NodeId id = id_of(list, entry);
  if (table.bad != nullptr) note_if_bad(table, list, entry);
  const Count row = id - list.first;
  return is_row(table, row) ? row : -1;
}

__global__ void split_entries(const __grid_constant__ RowList list, SplitRule rule,
                              const __grid_constant__ HostJob job, Split* split, Split* record) {
  const Count end = list.end != nullptr ? max(Count{0}, min(*list.end, list.bound)) : list.bound;
  const Count begin = list.begin != nullptr ? max(Count{0}, min(*list.begin, end)) : 0;
  const Count threads_rows = rule.threads_rows(end - begin), middle = end - threads_rows;
  *split = {begin, middle, end, middle - begin, 0};
  if (record != nullptr) *record = *split;
  if (job.doorbell != nullptr) raise_flag(job.doorbell, DoorbellWord::of(job.ticket, threads_rows).word);
}

// One block per chunk. The numbers cross PCIe as posted writes of whole lines: 4 bytes per row, where a row
// has hundreds.
template <typename Number>
__global__ void __launch_bounds__(kThreads)
    write_numbers(const __grid_constant__ RowTable table, const __grid_constant__ RowList list,
                  const __grid_constant__ HostJob job, const Split* split) {
  const Count middle = split->middle, rows = split->end - middle, num_chunks = job.num_chunks(rows);
  Number* numbers = static_cast<Number*>(job.numbers);
  for (Count chunk = blockIdx.x; chunk < num_chunks; chunk += gridDim.x) {
    const Count first = chunk * job.chunk_rows, last = min(first + job.chunk_rows, rows);
    for (Count i = first + threadIdx.x; i < last; i += kThreads)
      numbers[i] = static_cast<Number>(row_or_none(table, list, middle + i));  // -1 becomes kNoRow
    __threadfence_system();  // each thread's numbers come before the flag
    __syncthreads();
    if (threadIdx.x == 0) raise_flag(job.exported + chunk, job.ticket);
  }
}

template <typename Number>
__global__ void __launch_bounds__(kThreads)
    make_keys(const __grid_constant__ RowTable table, const __grid_constant__ RowList list,
              const Split* split, Count bound, Number* keys, std::uint32_t* positions) {
  const Count begin = split->begin, rows = split->kernel_rows;
  for (Count i = blockIdx.x * Count{kThreads} + threadIdx.x; i < bound; i += gridDim.x * Count{kThreads}) {
    const bool exists = i < rows;
    keys[i] = static_cast<Number>(exists ? row_or_none(table, list, begin + i) : -1);
    positions[i] = exists ? static_cast<std::uint32_t>(position_of(list, begin + i)) : 0;
  }
}

constexpr int kExportBlocks = 64;  // 64 x 256 ids in flight: a million takes about 60 us
constexpr int kKeyBlocks = 512;
constexpr Count kGranuleBytes = 65536;  // bytes that share a translation

unsigned blocks_for(Count items, Count items_per_block, int most) {
  return static_cast<unsigned>(std::clamp<Count>((items + items_per_block - 1) / items_per_block, 1, most));
}

}  // namespace

void split_list(const RowList& list, const SplitRule& rule, const HostJob& job, Split* split, Split* record,
                const cuda::Stream& stream) {
  split_entries<<<1, 1, 0, stream.get()>>>(list, rule, job, split, record);
  cuda::check_launch("split_entries");
}

void export_numbers(const RowTable& table, const RowList& list, const HostJob& job, const Split* split,
                    const cuda::Stream& stream) {
  const unsigned blocks = blocks_for(list.bound, job.chunk_rows, kExportBlocks);
  if (job.wide) {
    write_numbers<std::uint64_t><<<blocks, kThreads, 0, stream.get()>>>(table, list, job, split);
  } else {
    write_numbers<std::uint32_t><<<blocks, kThreads, 0, stream.get()>>>(table, list, job, split);
  }
  cuda::check_launch("write_numbers");
}

// Rows within a granule need no order, which saves a pass of the sort. The bit above those of row numbers is
// set only in -1, so entries without a row come last. Because the sort is stable, entries of the list come
// before those that only fill up to the bound.
RowSorter::RowSorter(Device device, const RowTable& table) : device_(device), wide_(has_wide_numbers(table)) {
  const auto bits_of = [](Count values) {
    return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(std::max<Count>(values, 1) - 1)));
  };
  const Count rows_per_granule = std::max<Count>(1, kGranuleBytes / std::max<Count>(table.row_pitch, 1));
  const int row_bits = bits_of(table.rows);
  begin_bit_ = std::min(row_bits, bits_of(rows_per_granule + 1) - 1);
  end_bit_ = row_bits + 1;
}

std::size_t RowSorter::temporary_bytes(Count bound) const {
  const cuda::DeviceGuard guard(device_);
  std::size_t bytes = 0;
  cub::DoubleBuffer<std::uint32_t> values;
  const auto ask = [&](auto keys) {
    cuda::check(cub::DeviceRadixSort::SortPairs(nullptr, bytes, keys, values, bound, begin_bit_, end_bit_),
                "cub::DeviceRadixSort");
  };
  if (wide_) {
    ask(cub::DoubleBuffer<std::uint64_t>());
  } else {
    ask(cub::DoubleBuffer<std::uint32_t>());
  }
  return bytes;
}

bool RowSorter::has_room(Count bound) const {
  return bound <= capacity_ && temporary_bytes(bound) <= temporary_.bytes();
}

void RowSorter::reserve(Count bound) {
  const char* what = "the sort of host rows";
  capacity_ = 0;  // in case an allocation fails
  const std::size_t key_bytes = wide_ ? sizeof(std::uint64_t) : sizeof(std::uint32_t);
  for (cuda::Buffer& keys : keys_)
    keys = cuda::Buffer(cuda::Memory::device, static_cast<std::size_t>(bound) * key_bytes, what, device_);
  for (cuda::Array<std::uint32_t>& positions : positions_)
    positions = cuda::Array<std::uint32_t>(cuda::Memory::device, bound, what, device_);
  temporary_ = cuda::Buffer(cuda::Memory::device, temporary_bytes(bound), what, device_);
  capacity_ = bound;
}

template <typename Number>
RowList RowSorter::sort_as(const RowTable& table, const RowList& list, const Split* split, Count bound,
                           const cuda::Stream& stream) {
  cub::DoubleBuffer<Number> keys(static_cast<Number*>(keys_[0].data()),
                                 static_cast<Number*>(keys_[1].data()));
  cub::DoubleBuffer<std::uint32_t> values(positions_[0].data(), positions_[1].data());
  make_keys<Number><<<blocks_for(bound, kThreads, kKeyBlocks), kThreads, 0, stream.get()>>>(
      table, list, split, bound, keys.Current(), values.Current());
  cuda::check_launch("make_keys");
  std::size_t bytes = temporary_.bytes();
  cuda::check(cub::DeviceRadixSort::SortPairs(temporary_.data(), bytes, keys, values, bound, begin_bit_,
                                              end_bit_, stream.get()),
              "cub::DeviceRadixSort");
  return {.ids = keys.Current(),
          .wide = sizeof(Number) == sizeof(std::uint64_t),
          .bound = bound,
          .end = &split->kernel_rows,
          .positions = values.Current()};
}

RowList RowSorter::sort(const RowTable& table, const RowList& list, const Split* split, Count bound,
                        const cuda::Stream& stream) {
  return wide_ ? sort_as<std::uint64_t>(table, list, split, bound, stream)
               : sort_as<std::uint32_t>(table, list, split, bound, stream);
}

}  // namespace strata::tensor
