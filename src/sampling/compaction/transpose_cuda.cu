// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cub/device/device_radix_sort.cuh>

#include "compaction/transpose_cuda.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::sampling {
namespace {

struct EdgeList {
  std::int32_t* src;
  std::int32_t* dst;
};

// Entries without an edge get a src above all others, so that they are sorted to the end.
__global__ void expand_edges(DeviceBlock block, EdgeList edges) {
  const Count num_dst = *block.num_dst;
  const Count num_entries = block.indptr == nullptr ? num_dst * block.stride : block.indptr[num_dst];
  for (Count e = first_item<Count>(); e < block.entry_bound; e += item_stride<Count>()) {
    bool used = e < num_entries;
    Count dst = 0;
    if (used) {
      dst = block.indptr == nullptr ? e / block.stride : list_of(block.indptr, num_dst, e);
      used = block.indptr != nullptr || e - dst * block.stride < block.counts[dst];
    }
    edges.src[e] = used ? block.indices[e] : static_cast<std::int32_t>(block.src_bound);
    edges.dst[e] = static_cast<std::int32_t>(dst);
  }
}

// One thread per src node finds the first edge whose src is not below it.
__global__ void find_lists(const std::int32_t* sorted_src, const Count* num_edges, Count num_src,
                           Count* indptr) {
  const Count end = *num_edges;
  for (Count s = first_item<Count>(); s <= num_src; s += item_stride<Count>()) {
    Count low = 0, high = end;
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

/// Sorts edges by src. If `temporary` is null it only sets `bytes` to the scratch memory that it needs.
void sort_edges(void* temporary, std::size_t& bytes, const EdgeList& edges, const EdgeList& sorted,
                Count num_edges, int key_bits, const cuda::Stream& stream) {
  cuda::check(cub::DeviceRadixSort::SortPairs(temporary, bytes, edges.src, sorted.src, edges.dst, sorted.dst,
                                              num_edges, 0, key_bits, stream.get()),
              "cub::DeviceRadixSort");
}

}  // namespace

void DeviceTranspose::reserve_edges(Count num_entries, const cuda::Stream& stream) {
  if (num_entries <= src_of_edge_.size()) return;
  for (auto* array : {&src_of_edge_, &dst_of_edge_, &sorted_src_})
    reserve(*array, cuda::Memory::device, num_entries, 0, "transposing blocks", stream);
  std::size_t bytes = 0;
  sort_edges(nullptr, bytes, {}, {}, src_of_edge_.size(), 32, stream);
  reserve(temporary_, cuda::Memory::device, static_cast<Count>(bytes), 0, "transposing blocks", stream);
}

void DeviceTranspose::run(const DeviceBlock& block, const TransposeOutput& out, const cuda::Stream& stream) {
  reserve_edges(block.entry_bound, stream);
  if (block.entry_bound > 0) {
    const EdgeList edges{src_of_edge_.data(), dst_of_edge_.data()};
    expand_edges<<<blocks_for(block.entry_bound), kThreads, 0, stream.get()>>>(block, edges);
    cuda::check_launch("expand_edges");
    const int key_bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(block.src_bound)));
    auto bytes = static_cast<std::size_t>(temporary_.size());
    sort_edges(temporary_.data(), bytes, edges, {sorted_src_.data(), out.indices}, block.entry_bound,
               std::max(1, key_bits), stream);
  }
  find_lists<<<blocks_for(block.src_bound + 1), kThreads, 0, stream.get()>>>(
      sorted_src_.data(), block.num_edges, block.src_bound, out.indptr);
  cuda::check_launch("find_lists");
}

}  // namespace strata::sampling
