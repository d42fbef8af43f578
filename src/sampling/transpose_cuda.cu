#include <bit>
#include <cub/device/device_radix_sort.cuh>

#include "transpose_cuda.hpp"

namespace strata::sampling {
namespace {

__global__ void expand_dst(const Count* indptr, Count num_dst, Count num_edges, std::int32_t* dst_of_edge) {
  for (Count e = first_item<Count>(); e < num_edges; e += item_stride<Count>()) {
    dst_of_edge[e] = static_cast<std::int32_t>(list_of(indptr, num_dst, e));
  }
}

// One thread a src node: the first edge whose src is not below it.
__global__ void find_lists(const std::int32_t* sorted_src, Count num_edges, Count num_src, Count* indptr) {
  for (Count s = first_item<Count>(); s <= num_src; s += item_stride<Count>()) {
    Count low = 0, high = num_edges;
    while (low < high) {
      const Count middle = low + (high - low) / 2;
      if (sorted_src[middle] < s)
        low = middle + 1;
      else
        high = middle;
    }
    indptr[s] = low;
  }
}

/// Edges sorted by src. Calls with temporary == null only set the bytes that it needs.
void sort_edges(void* temporary, std::size_t& bytes, const std::int32_t* src, std::int32_t* sorted_src,
                const std::int32_t* dst, std::int32_t* sorted_dst, Count num_edges, int key_bits,
                const cuda::Stream& stream) {
  cuda::check(cub::DeviceRadixSort::SortPairs(temporary, bytes, src, sorted_src, dst, sorted_dst, num_edges,
                                              0, key_bits, stream.get()),
              "cub::DeviceRadixSort");
}

}  // namespace

void DeviceTranspose::reserve_edges(Count num_edges, const cuda::Stream& stream) {
  if (num_edges == 0) return;
  reserve(dst_of_edge_, cuda::Memory::device, num_edges, 0, "transposing blocks", stream);
  reserve(sorted_src_, cuda::Memory::device, num_edges, 0, "transposing blocks", stream);
  std::size_t bytes = 0;
  sort_edges(nullptr, bytes, nullptr, nullptr, nullptr, nullptr, num_edges, 32, stream);
  reserve(temporary_, cuda::Memory::device, static_cast<Count>(bytes), 0, "transposing blocks", stream);
}

void DeviceTranspose::run(const Block& block, const TransposeOutput& out, const cuda::Stream& stream) {
  reserve_edges(block.num_edges, stream);
  if (block.num_edges > 0) {
    expand_dst<<<blocks_for(block.num_edges), kThreads, 0, stream.get()>>>(
        block.indptr, block.num_dst, block.num_edges, dst_of_edge_.data());
    cuda::check_launch("expand_dst");
    const int key_bits =
        std::max(1, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(block.num_src - 1))));
    auto bytes = static_cast<std::size_t>(temporary_.size());
    sort_edges(temporary_.data(), bytes, block.indices, sorted_src_.data(), dst_of_edge_.data(), out.indices,
               block.num_edges, key_bits, stream);
  }
  find_lists<<<blocks_for(block.num_src + 1), kThreads, 0, stream.get()>>>(
      sorted_src_.data(), block.num_edges, block.num_src, out.indptr);
  cuda::check_launch("find_lists");
}

}  // namespace strata::sampling
