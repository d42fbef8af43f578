// SPDX-License-Identifier: Apache-2.0
#include "compaction/compactor_cuda.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::sampling {
namespace {

constexpr int kWordBits = 32;
constexpr int kChunkWords = kWarp;            // one word per lane
constexpr int kInFlight = 4;                  // chunks that a warp reads at once
constexpr Count kManyNodes = Count{1} << 24;  // fewer are numbered in one pass
constexpr Count kMostTiles = 8192;        // because every block adds up the sums of all tiles before its own
constexpr Count kShort = Count{1} << 31;  // 32 bits can count this many entries, plus a grid's stride
constexpr int kDenseWord = 12;  // with this many bits, lanes share a word instead of taking one each

using Atomic = unsigned long long;

/// Where seeds are written.
struct SeedPlaces {
  Count graph_nodes;
  std::uint32_t* known;  // null: known nodes are not needed later
  NodeId* nodes;
  std::int32_t* seed_ids;
  Count* num_nodes;
  SeedCheck* check;
};

/// Returns whether the seed is a node and new.
__device__ bool place_seed(NodeId node, Count i, const SeedPlaces& out) {
  out.nodes[i] = node;
  if (node < 0 || node >= out.graph_nodes) return false;
  if (out.known == nullptr) return true;
  const std::uint32_t bit = 1u << (static_cast<std::uint32_t>(node) % kWordBits);
  if ((atomicOr(out.known + node / kWordBits, bit) & bit) != 0) return false;
  out.seed_ids[node] = static_cast<std::int32_t>(i);
  return true;
}

// The last block knows about all seeds. If one is bad it sets their number to 0, so that nothing exceeds its
// bounds.
__global__ void place_seeds(const SeedList* list, SeedPlaces out) {
  const SeedList seeds = *list;
  for (Count i = first_item<Count>(); i < seeds.size; i += item_stride<Count>()) {
    if (place_seed(seeds.nodes[i], i, out)) continue;
    atomicMax(reinterpret_cast<Atomic*>(&out.check->bad), static_cast<Atomic>(i + 1));
    __threadfence();
  }
  __syncthreads();
  if (threadIdx.x != 0 || atomicAdd(reinterpret_cast<Atomic*>(&out.check->blocks), Atomic{1}) + 1 < gridDim.x)
    return;
  __threadfence();
  *out.num_nodes = __ldcg(&out.check->bad) == 0 ? seeds.size : 0;
}

/// Calls visitor(e) for this thread's entries. Index has 32 bits if that suffices, because division is
/// several times faster.
template <typename Index, typename Id, typename Visitor>
__device__ void visit_entries(const DeviceEdges<Id>& edges, Visitor&& visitor) {
  const auto stride = static_cast<Index>(edges.stride == 0 ? 1 : edges.stride);
  const Index size = static_cast<Index>(*edges.count) * stride;
  for (Index e = first_item<Index>(); e < size; e += item_stride<Index>()) {
    if (edges.stride > 0) {
      const Index list = e / stride;
      if (e - list * stride >= static_cast<Index>(edges.counts[list])) continue;
    }
    visitor(e);
  }
}

__device__ int inclusive_sum(int value) {
  for (unsigned step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(kAllLanes, value, step);
    if (lane_index() >= step) value += other;
  }
  return value;
}

/// Where a hop's new nodes are written.
struct Numbering {
  WordRank* ranks;
  NodeId* nodes;
  const Count* num_known;
  Count* num_nodes;
  bool last;  // no later pass needs the known nodes

  __device__ Count num_before() const { return num_known == nullptr ? 0 : *num_known; }
};

/// What a tile publishes to later tiles: zero at first, then its count, then the sum up to and including it.
struct TileChain {
  unsigned long long* states;  // [tiles]: value * 4 + kind
  unsigned* ticket;            // tiles start in this order, so that no tile waits for one that cannot run
};
constexpr unsigned long long kCount = 1, kSum = 2;

/// The sum of all tiles before this one. A whole warp calls it.
__device__ Count look_back(const TileChain& chain, unsigned tile, int total) {
  auto* states = static_cast<volatile unsigned long long*>(chain.states);
  const auto own = static_cast<unsigned long long>(total);
  if (tile == 0) {
    if (lane_index() == 0) states[0] = own * 4 + kSum;
    return 0;
  }
  if (lane_index() == 0) states[tile] = own * 4 + kCount;
  unsigned long long before = 0;
  for (auto nearest = static_cast<Count>(tile) - 1;; nearest -= 32) {
    const Count at = nearest - lane_index();
    unsigned long long state = kSum;
    if (at >= 0) {
      do {
        state = states[at];
      } while (state == 0);
    }
    const unsigned sums = __ballot_sync(kAllLanes, state % 4 == kSum);
    const unsigned last = sums == 0 ? 31u : static_cast<unsigned>(__ffs(static_cast<int>(sums))) - 1;
    unsigned long long part = lane_index() <= last ? state / 4 : 0;
    for (unsigned step = 16; step > 0; step /= 2) part += __shfl_xor_sync(kAllLanes, part, step);
    before += part;
    if (sums != 0) break;
  }
  if (lane_index() == 0) states[tile] = (before + own) * 4 + kSum;
  return static_cast<Count>(before);
}

/// Writes the nodes of the words that the lanes of a warp hold; `id` is the local id of a word's first bit.
__device__ void emit(std::uint32_t word, NodeId first_node_of_warp, Count id, NodeId* nodes) {
  const auto first_node = [&](int owner) { return first_node_of_warp + owner * kWordBits; };
  if (__reduce_max_sync(kAllLanes, static_cast<unsigned>(__popc(word))) <= kDenseWord) {
    const NodeId first = first_node(static_cast<int>(lane_index()));
    for (; word != 0; word &= word - 1) nodes[id++] = first + __ffs(static_cast<int>(word)) - 1;
    return;
  }
  for (unsigned owners = __ballot_sync(kAllLanes, word != 0); owners != 0; owners &= owners - 1) {
    const int owner = __ffs(static_cast<int>(owners)) - 1;
    const std::uint32_t bits = __shfl_sync(kAllLanes, word, owner);
    const Count first_id = __shfl_sync(kAllLanes, id, owner);
    if ((bits >> lane_index()) & 1u)
      nodes[first_id + __popc(bits & lanes_below())] = first_node(owner) + lane_index();
  }
}

// One block per tile, one word per thread: a single pass in which tiles wait for earlier ones.
__global__ void __launch_bounds__(kThreads) number_in_chain(NodeBits bits, TileChain chain, Numbering out) {
  __shared__ unsigned shared_tile;
  __shared__ int sums[kWarpsPerBlock];  // sum of each warp's words, then of the words before them
  __shared__ Count shared_before;
  if (threadIdx.x == 0) shared_tile = atomicAdd(chain.ticket, 1u);
  __syncthreads();
  const unsigned tile = shared_tile, warp = threadIdx.x / kWarp;
  const Count word = static_cast<Count>(tile) * kThreads + threadIdx.x;
  const std::uint32_t met = bits.met[word], known = bits.known[word], fresh = met & ~known;
  const int count = __popc(fresh), up_to = inclusive_sum(count);
  if (lane_index() == kWarp - 1) sums[warp] = up_to;
  __syncthreads();
  if (warp == 0) {
    const int sum = lane_index() < kWarpsPerBlock ? sums[lane_index()] : 0;
    const int up_to_warp = inclusive_sum(sum);
    if (lane_index() < kWarpsPerBlock) sums[lane_index()] = up_to_warp - sum;
    const int total = __shfl_sync(kAllLanes, up_to_warp, kWarp - 1);
    const Count before = look_back(chain, tile, total);
    if (lane_index() == 0) {
      shared_before = out.num_before() + before;
      if (tile == gridDim.x - 1 && out.num_nodes != nullptr) *out.num_nodes = shared_before + total;
    }
  }
  __syncthreads();
  const Count id = shared_before + sums[warp] + up_to - count;
  out.ranks[word] = {fresh, static_cast<std::int32_t>(id)};
  if (__ballot_sync(kAllLanes, count != 0) != 0)
    emit(fresh, (word - lane_index()) * kWordBits, id, out.nodes);
  if (met != 0) bits.met[word] = 0;
  if (count != 0 && !out.last) bits.known[word] = known | fresh;
}

/// How the chunks are distributed to warps.
struct Tiles {
  Count count;
  Count chunks;  // chunks per tile, a multiple of kInFlight

  __device__ Count own() const {
    return static_cast<Count>(blockIdx.x) * kWarpsPerBlock + threadIdx.x / kWarp;
  }
};

// One warp per tile. Reads one bit per node, and also the bits of known nodes if any node was met.
__global__ void __launch_bounds__(kThreads)
    count_new(NodeBits bits, Tiles tiles, std::uint8_t* any_new, std::int32_t* tile_sums) {
  const Count tile = tiles.own();
  if (tile >= tiles.count) return;
  std::uint32_t sum = 0;
  for (Count chunk = tile * tiles.chunks; chunk < (tile + 1) * tiles.chunks; chunk += kInFlight) {
    const Count first_word = chunk * kChunkWords + lane_index();
    std::uint32_t met[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) met[k] = bits.met[first_word + k * kChunkWords];
    std::uint32_t flags = 0;
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      if (!__any_sync(kAllLanes, met[k] != 0)) continue;
      const std::uint32_t fresh = met[k] & ~bits.known[first_word + k * kChunkWords];
      sum += static_cast<std::uint32_t>(__popc(fresh));
      if (__any_sync(kAllLanes, fresh != 0))
        flags |= 1u << (8 * k);
      else
        bits.met[first_word + k * kChunkWords] = 0;
    }
    if (lane_index() == 0) *reinterpret_cast<std::uint32_t*>(any_new + chunk) = flags;
  }
  sum = __reduce_add_sync(kAllLanes, sum);
  if (lane_index() == 0) tile_sums[tile] = static_cast<std::int32_t>(sum);
}

/// The sum of all tiles before those of this block; all threads get it.
__device__ Count sum_before_block(const std::int32_t* tile_sums) {
  __shared__ Count sums[kWarpsPerBlock];
  const Count first_tile = static_cast<Count>(blockIdx.x) * kWarpsPerBlock;
  Count own = 0;
#pragma unroll 4
  for (Count t = threadIdx.x; t < first_tile; t += kThreads) own += tile_sums[t];
  for (unsigned step = kWarp / 2; step > 0; step /= 2) own += __shfl_xor_sync(kAllLanes, own, step);
  if (lane_index() == 0) sums[threadIdx.x / kWarp] = own;
  __syncthreads();
  Count before = 0;
  for (const Count of_warp : sums) before += of_warp;
  return before;
}

// One warp per tile, with the counts of count_new; chunks without a new node are skipped.
__global__ void __launch_bounds__(kThreads)
    number_new(NodeBits bits, Tiles tiles, const std::uint8_t* any_new, const std::int32_t* tile_sums,
               Numbering out) {
  const Count before_block = sum_before_block(tile_sums);
  const Count tile = tiles.own(), first_tile = tile - threadIdx.x / kWarp;
  Count id = out.num_before() + before_block;
  for (Count t = first_tile; t < tile && t < tiles.count; ++t) id += tile_sums[t];
  if (tile >= tiles.count) return;
  for (Count chunk = tile * tiles.chunks; chunk < (tile + 1) * tiles.chunks; chunk += kInFlight) {
    const std::uint32_t flags = *reinterpret_cast<const std::uint32_t*>(any_new + chunk);
    if (flags == 0) continue;
    const Count first_word = chunk * kChunkWords + lane_index();
    std::uint32_t fresh[kInFlight], known[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      const bool any = (flags >> (8 * k)) & 1u;
      fresh[k] = any ? bits.met[first_word + k * kChunkWords] : 0;
      known[k] = any ? bits.known[first_word + k * kChunkWords] : 0;
    }
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      if (((flags >> (8 * k)) & 1u) == 0) continue;
      const Count word = first_word + k * kChunkWords;
      fresh[k] &= ~known[k];
      const int count = __popc(fresh[k]), up_to = inclusive_sum(count);
      const Count first_id = id + up_to - count;
      out.ranks[word] = {fresh[k], static_cast<std::int32_t>(first_id)};
      emit(fresh[k], (chunk + k) * kChunkWords * kWordBits, first_id, out.nodes);
      bits.met[word] = 0;
      if (!out.last) bits.known[word] = known[k] | fresh[k];
      id += __shfl_sync(kAllLanes, up_to, kWarp - 1);
    }
  }
  if (tile == tiles.count - 1 && lane_index() == 0 && out.num_nodes != nullptr) *out.num_nodes = id;
}

/// The rank of the node with this bit.
__device__ std::int32_t rank_of(const WordRank& word, std::uint32_t bit) {
  return word.first + __popc(word.bits & (bit - 1));
}

// Ranks are in ascending order of all nodes.
__global__ void invert_ranks(const NodeId* nodes, const Count* num_nodes, const WordRank* ranks,
                             std::int32_t* out) {
  const Count end = *num_nodes;
  for (Count i = first_item<Count>(); i < end; i += item_stride<Count>()) {
    const NodeId node = nodes[i];
    const std::uint32_t bit = 1u << (static_cast<std::uint32_t>(node) % kWordBits);
    out[rank_of(ranks[node / kWordBits], bit)] = static_cast<std::int32_t>(i);
  }
}

/// Where to find the local ids of a minibatch.
struct LocalIds {
  const WordRank* ranks;        // [hops, num_words]
  const std::uint8_t* any_new;  // [hops, num_words / kChunkWords] chunks with ranks; null: all have them
  Count num_words;
  int hop;
  const std::int32_t* seed_ids;

  __device__ std::int32_t find(NodeId node) const {
    const Count word = node / kWordBits;
    const std::uint32_t bit = 1u << (static_cast<std::uint32_t>(node) % kWordBits);
    for (int h = hop; h >= 0; --h) {  // most nodes were met in the last hop
      if (any_new != nullptr && any_new[(h * num_words + word) / kChunkWords] == 0) continue;
      const WordRank rank = ranks[h * num_words + word];
      if ((rank.bits & bit) != 0) return rank_of(rank, bit);
    }
    return seed_ids[node];
  }
};

// Each thread has kAtOnce entries in flight: first the neighbors, then their chunks' flags, then their ranks.
template <int kAtOnce, typename Index, typename Id>
__global__ void __launch_bounds__(kThreads)
    relabel_neighbors(DeviceEdges<Id> edges, LocalIds local_ids, std::int32_t* out) {
  const auto stride = static_cast<Index>(edges.stride == 0 ? 1 : edges.stride);
  const Index size = static_cast<Index>(*edges.count) * stride, step = item_stride<Index>();
  for (Index first = first_item<Index>(); first < size; first += kAtOnce * step) {
    NodeId neighbors[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const Index e = first + static_cast<Index>(k) * step;
      neighbors[k] = -1;
      if (e >= size) continue;
      const Index list = e / stride;
      if (edges.stride == 0 || e - list * stride < static_cast<Index>(edges.counts[list]))
        neighbors[k] = edges.neighbors[e];
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k)
      if (neighbors[k] >= 0) out[first + static_cast<Index>(k) * step] = local_ids.find(neighbors[k]);
  }
}

/// Tiles with as few chunks each as kMostTiles allows; in a chain, one word per thread.
Tiles tiles_of(Count num_nodes) {
  const bool in_chain = num_nodes < kManyNodes;
  constexpr Count kChunkNodes = Count{kChunkWords} * kWordBits;
  const Count chunks = std::max<Count>(1, (num_nodes + kChunkNodes - 1) / kChunkNodes);
  const Count least = (chunks + kMostTiles - 1) / kMostTiles;
  const Count chunks_per_tile =
      in_chain ? kThreads / kChunkWords : (least + kInFlight - 1) / kInFlight * kInFlight;
  return {(chunks + chunks_per_tile - 1) / chunks_per_tile, chunks_per_tile};
}

Count words_of_state(Count num_tiles) { return num_tiles * 2 + 2; }  // 64-bit states, the ticket, padding

}  // namespace

template <typename Id>
DeviceCompactor<Id>::DeviceCompactor(const Size& size, Device device)
    : num_nodes_(size.num_nodes),
      num_hops_(size.num_hops),
      num_passes_(size.num_hops + (size.sorts ? 1 : 0)),
      in_chain_(size.num_nodes < kManyNodes),
      num_tiles_(tiles_of(size.num_nodes).count),
      chunks_per_tile_(tiles_of(size.num_nodes).chunks),
      num_words_(num_tiles_ * chunks_per_tile_ * kChunkWords),
      num_state_words_(in_chain_ ? words_of_state(num_tiles_) : 0),
      bits_(cuda::Memory::device, 2 * num_words_ + num_passes_ * num_state_words_, "the sampler's bits",
            device),
      any_new_(cuda::Memory::device, in_chain_ ? 0 : num_passes_ * num_tiles_ * chunks_per_tile_,
               "the sampler's bits", device),
      tile_sums_(cuda::Memory::device, num_tiles_, "the sampler's bits", device),
      ranks_(cuda::Memory::device, num_passes_ * num_words_, "local ids of the sampler", device),
      seed_ids_(cuda::Memory::device, std::max<Count>(1, size.num_nodes), "local ids of the sampler",
                device) {}

template <typename Id>
void DeviceCompactor<Id>::start(const Start& start, const cuda::Stream& stream) {
  const auto clear = [&](std::uint32_t* words, Count count) {
    cuda::fill_async(words, 0, static_cast<std::size_t>(count) * sizeof(std::uint32_t), stream);
  };
  if (start.extensible) clear(known(), bits_.size() - num_words_);
  if (start.extensible && !met_is_clear_) clear(met(), num_words_);
  met_is_clear_ = !start.extensible && met_is_clear_;
  place_seeds<<<blocks_for(start.bound), kThreads, 0, stream.get()>>>(
      start.seeds, {num_nodes_, start.extensible ? known() : nullptr, start.nodes, seed_ids_.data(),
                    start.num_nodes, start.check});
  cuda::check_launch("place_seeds");
}

template <typename Id>
void DeviceCompactor<Id>::extend(const Extension& hop, const cuda::Stream& stream) {
  number({met(), known()}, hop, stream);
  met_is_clear_ = hop.last;
}

// Numbers once more, as if all known nodes were met and none were known; the bits of met nodes are clear at
// this point.
template <typename Id>
void DeviceCompactor<Id>::sort(const Sorting& sorting, const cuda::Stream& stream) {
  number({known(), met()}, {.number = num_hops_, .nodes = sorting.sorted, .last = true}, stream);
  met_is_clear_ = true;
  invert_ranks<<<blocks_for(sorting.bound), kThreads, 0, stream.get()>>>(
      sorting.nodes, sorting.num_nodes, ranks_.data() + num_hops_ * num_words_, sorting.local_ids);
  cuda::check_launch("invert_ranks");
}

template <typename Id>
void DeviceCompactor<Id>::number(const NodeBits& bits, const Extension& pass, const cuda::Stream& stream) {
  const Numbering out{ranks_.data() + pass.number * num_words_, pass.nodes, pass.num_known, pass.num_nodes,
                      pass.last};
  if (in_chain_) {
    std::uint32_t* state = bits_.data() + 2 * num_words_ + pass.number * num_state_words_;
    const TileChain chain{reinterpret_cast<unsigned long long*>(state), state + 2 * num_tiles_};
    number_in_chain<<<static_cast<unsigned>(num_tiles_), kThreads, 0, stream.get()>>>(bits, chain, out);
    cuda::check_launch("number_in_chain");
  } else {
    const Tiles tiles{num_tiles_, chunks_per_tile_};
    std::uint8_t* any_new = any_new_.data() + pass.number * tiles.count * tiles.chunks;
    const auto blocks = static_cast<unsigned>((num_tiles_ + kWarpsPerBlock - 1) / kWarpsPerBlock);
    count_new<<<blocks, kThreads, 0, stream.get()>>>(bits, tiles, any_new, tile_sums_.data());
    cuda::check_launch("count_new");
    number_new<<<blocks, kThreads, 0, stream.get()>>>(bits, tiles, any_new, tile_sums_.data(), out);
    cuda::check_launch("number_new");
  }
}

template <typename Id>
void DeviceCompactor<Id>::relabel(int hop, const DeviceEdges<Id>& edges, std::int32_t* local_ids,
                                  const cuda::Stream& stream) const {
  const LocalIds known_ids{ranks_.data(), in_chain_ ? nullptr : any_new_.data(), num_words_, hop,
                           seed_ids_.data()};
  const auto launch = [&]<int kAtOnce, typename Index>() {
    relabel_neighbors<kAtOnce, Index>
        <<<blocks_for(edges.bound / kAtOnce), kThreads, 0, stream.get()>>>(edges, known_ids, local_ids);
  };
  if (edges.bound >= kShort)
    launch.template operator()<kInFlight, std::uint64_t>();
  else if (in_chain_)
    launch.template operator()<1, std::uint32_t>();
  else
    launch.template operator()<kInFlight, std::uint32_t>();
  cuda::check_launch("relabel_neighbors");
}

template class DeviceCompactor<std::int32_t>;
template class DeviceCompactor<std::int64_t>;

}  // namespace strata::sampling
