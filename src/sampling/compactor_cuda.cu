#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>

#include "compactor_cuda.hpp"

namespace strata::sampling {
namespace {

constexpr int kWordBits = 32;
constexpr int kWordsPerThread = 4;                        // one 16-byte load
constexpr Count kTileWords = kThreads * kWordsPerThread;  // 32768 nodes a block

/// The bits of the nodes that were met and of those that have a local id.
struct Bits {
  std::uint32_t* met;
  std::uint32_t* known;
};

__device__ void mark(std::uint32_t* words, NodeId node) {
  std::uint32_t* word = words + node / kWordBits;
  const std::uint32_t bit = 1u << (static_cast<std::uint32_t>(node) % kWordBits);
  if ((__ldcg(word) & bit) == 0) atomicOr(word, bit);  // most were met before
}

__global__ void mark_seeds(const NodeId* nodes, Count num_seeds, Bits bits, std::int32_t* local_ids) {
  for (Count i = first_item<Count>(); i < num_seeds; i += item_stride<Count>()) {
    mark(bits.met, nodes[i]);
    mark(bits.known, nodes[i]);
    local_ids[nodes[i]] = static_cast<std::int32_t>(i);
  }
}

template <typename Id>
__global__ void mark_neighbors(DeviceEdges<Id> edges, std::uint32_t* met) {
  const Count num_edges = *edges.count;
  for (Count e = first_item<Count>(); e < num_edges; e += item_stride<Count>()) mark(met, edges.neighbors[e]);
}

/// Four words of this thread: what was met and has no local id.
struct Fresh {
  uint4 met;
  std::uint32_t words[kWordsPerThread];
  int count;
};

__device__ Fresh load_fresh(const Bits& bits, Count vector) {
  Fresh fresh;
  fresh.met = reinterpret_cast<const uint4*>(bits.met)[vector];
  const uint4 known = reinterpret_cast<const uint4*>(bits.known)[vector];
  fresh.words[0] = fresh.met.x & ~known.x;
  fresh.words[1] = fresh.met.y & ~known.y;
  fresh.words[2] = fresh.met.z & ~known.z;
  fresh.words[3] = fresh.met.w & ~known.w;
  fresh.count = 0;
  for (int w = 0; w < kWordsPerThread; ++w) fresh.count += __popc(fresh.words[w]);
  return fresh;
}

__device__ Count vector_of_thread() { return static_cast<Count>(blockIdx.x) * kThreads + threadIdx.x; }

__global__ void count_new(Bits bits, Count* tile_counts) {
  using Reduce = cub::BlockReduce<int, kThreads>;
  __shared__ typename Reduce::TempStorage storage;
  const int sum = Reduce(storage).Sum(load_fresh(bits, vector_of_thread()).count);
  if (threadIdx.x == 0) tile_counts[blockIdx.x] = sum;
}

__global__ void number_new(Bits bits, const Count* tile_offsets, const Count* num_known, NodeId* nodes,
                           std::int32_t* local_ids) {
  if (tile_offsets[blockIdx.x + 1] == tile_offsets[blockIdx.x])
    return;  // the same for all threads of the block
  using Scan = cub::BlockScan<int, kThreads>;
  __shared__ typename Scan::TempStorage storage;
  const Count vector = vector_of_thread();
  const Fresh fresh = load_fresh(bits, vector);
  int before = 0;
  Scan(storage).ExclusiveSum(fresh.count, before);
  Count local_id = *num_known + tile_offsets[blockIdx.x] + before;
  for (int w = 0; w < kWordsPerThread; ++w) {
    for (std::uint32_t word = fresh.words[w]; word != 0; word &= word - 1) {
      const NodeId node = (vector * kWordsPerThread + w) * kWordBits + __ffs(static_cast<int>(word)) - 1;
      nodes[local_id] = node;
      local_ids[node] = static_cast<std::int32_t>(local_id++);
    }
  }
  reinterpret_cast<uint4*>(bits.known)[vector] = fresh.met;
}

__global__ void add_new(const Count* num_known, const Count* num_new, Count* num_nodes) {
  *num_nodes = *num_known + *num_new;
}

template <typename Id>
__global__ void relabel_neighbors(DeviceEdges<Id> edges, const std::int32_t* local_ids, std::int32_t* out) {
  const Count num_edges = *edges.count;
  for (Count e = first_item<Count>(); e < num_edges; e += item_stride<Count>())
    out[e] = local_ids[edges.neighbors[e]];
}

}  // namespace

template <typename Id>
DeviceCompactor<Id>::DeviceCompactor(Count num_nodes, Device device)
    : num_tiles_(std::max<Count>(1, (num_nodes + kTileWords * kWordBits - 1) / (kTileWords * kWordBits))),
      met_(cuda::Memory::device, num_tiles_ * kTileWords, "the sampler's bits", device),
      known_(cuda::Memory::device, num_tiles_ * kTileWords, "the sampler's bits", device),
      tile_offsets_(cuda::Memory::device, num_tiles_ + 1, "the sampler's counts", device),
      local_ids_(cuda::Memory::device, std::max<Count>(1, num_nodes), "local ids of the sampler", device),
      scan_(device) {}

template <typename Id>
void DeviceCompactor<Id>::start(const NodeId* nodes, Count num_seeds, const cuda::Stream& stream) {
  const auto bytes = static_cast<std::size_t>(met_.size()) * sizeof(std::uint32_t);
  cuda::fill_async(met_.data(), 0, bytes, stream);
  cuda::fill_async(known_.data(), 0, bytes, stream);
  mark_seeds<<<blocks_for(num_seeds), kThreads, 0, stream.get()>>>(
      nodes, num_seeds, {met_.data(), known_.data()}, local_ids_.data());
  cuda::check_launch("mark_seeds");
}

template <typename Id>
void DeviceCompactor<Id>::extend(const DeviceEdges<Id>& edges, NodeId* nodes, const Count* num_known,
                                 Count* num_nodes, const cuda::Stream& stream) {
  const Bits bits{met_.data(), known_.data()};
  const auto num_tiles = static_cast<unsigned>(num_tiles_);
  mark_neighbors<<<blocks_for(edges.bound), kThreads, 0, stream.get()>>>(edges, bits.met);
  cuda::check_launch("mark_neighbors");
  cuda::fill_async(tile_offsets_.data() + num_tiles_, 0, sizeof(Count), stream);
  count_new<<<num_tiles, kThreads, 0, stream.get()>>>(bits, tile_offsets_.data());
  cuda::check_launch("count_new");
  scan_.exclusive(tile_offsets_.data(), num_tiles_ + 1, stream);
  number_new<<<num_tiles, kThreads, 0, stream.get()>>>(bits, tile_offsets_.data(), num_known, nodes,
                                                       local_ids_.data());
  cuda::check_launch("number_new");
  add_new<<<1, 1, 0, stream.get()>>>(num_known, tile_offsets_.data() + num_tiles_, num_nodes);
  cuda::check_launch("add_new");
}

template <typename Id>
void DeviceCompactor<Id>::relabel(const DeviceEdges<Id>& edges, std::int32_t* local_ids,
                                  const cuda::Stream& stream) const {
  relabel_neighbors<<<blocks_for(edges.bound), kThreads, 0, stream.get()>>>(edges, local_ids_.data(),
                                                                            local_ids);
  cuda::check_launch("relabel_neighbors");
}

template class DeviceCompactor<std::int32_t>;
template class DeviceCompactor<std::int64_t>;

}  // namespace strata::sampling
