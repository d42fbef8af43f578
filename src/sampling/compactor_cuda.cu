#include "compactor_cuda.hpp"

namespace strata::sampling {
namespace {

constexpr int kWordBits = 32;
constexpr Count kManyNodes = Count{1} << 24;  // fewer have too few tiles of many words a thread for a GPU
constexpr int kManyWords = 4, kFewWords = 1;
constexpr Count kShort = Count{1} << 31;  // entries that 32 bits count, a grid's stride beyond them too
constexpr int kDenseWord = 12;            // bits from which lanes share a word instead of taking one each

/// The bits of the nodes that were met and of those that have a local id.
struct Bits {
  const std::uint32_t* met;
  std::uint32_t* known;
};

/// What a tile tells those behind it: zero at first, then its count, then the sum up to and with it.
struct TileChain {
  unsigned long long* states;  // [tiles]: value * 4 + kind
  unsigned* ticket;            // tiles start in this order, so that none waits for one that cannot run
};
constexpr unsigned long long kCount = 1, kSum = 2;

__global__ void place_seeds(const SeedList* list, std::uint32_t* met, std::uint32_t* known, NodeId* nodes,
                            std::int32_t* seed_ids, Count* num_nodes) {
  const SeedList seeds = *list;
  if (blockIdx.x == 0 && threadIdx.x == 0) *num_nodes = seeds.size;
  for (Count i = first_item<Count>(); i < seeds.size; i += item_stride<Count>()) {
    const NodeId node = seeds.nodes[i];
    nodes[i] = node;
    if (met == nullptr) continue;
    mark(met, node);
    mark(known, node);
    seed_ids[node] = static_cast<std::int32_t>(i);
  }
}

/// Calls visitor(e) for this thread's entries. Index is 32 bits wide where that is enough, as it divides
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

template <typename Index, typename Id>
__global__ void mark_neighbors(DeviceEdges<Id> edges, std::uint32_t* met) {
  visit_entries<Index>(edges, [&](Index e) { mark(met, edges.neighbors[e]); });
}

__device__ int inclusive_sum(int value) {
  for (unsigned step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(kAllLanes, value, step);
    if (lane_index() >= step) value += other;
  }
  return value;
}

/// The sum of all tiles before this one. Called by one whole warp.
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

/// Consecutive words that a thread loads at once.
template <int kWide>
struct alignas(kWide * 4) Words {
  std::uint32_t word[kWide];
};

/// Writes the nodes of word `k` of the kWide words that each lane of a warp holds; `id` is the local id of
/// its first bit.
template <int kWide>
__device__ void emit(std::uint32_t word, int k, NodeId first_node_of_warp, Count id, NodeId* nodes) {
  const auto first_node = [&](int owner) { return first_node_of_warp + (owner * kWide + k) * kWordBits; };
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

// kLoads times kWide words a thread. A tile's words are ordered by load, thread, word.
template <int kLoads, int kWide>
__global__ void __launch_bounds__(kThreads)
    number_new(Bits bits, TileChain chain, WordRank* ranks, NodeId* nodes, const Count* num_known,
               Count* num_nodes) {
  static_assert(kLoads * kWarpsABlock <= 32);
  __shared__ unsigned shared_tile;
  __shared__ int sums[kLoads * kWarpsABlock];  // of a warp's words; then of those before them
  __shared__ Count shared_before;
  if (threadIdx.x == 0) shared_tile = atomicAdd(chain.ticket, 1u);
  __syncthreads();
  const unsigned tile = shared_tile, warp = threadIdx.x / 32;
  const Count first_vector = static_cast<Count>(tile) * kLoads * kThreads + threadIdx.x;
  const auto* met = reinterpret_cast<const Words<kWide>*>(bits.met);
  auto* known = reinterpret_cast<Words<kWide>*>(bits.known);

  Words<kWide> fresh[kLoads];
#pragma unroll
  for (int i = 0; i < kLoads; ++i) fresh[i] = met[first_vector + i * kThreads];
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const Words<kWide> old = known[first_vector + i * kThreads];
    for (int k = 0; k < kWide; ++k) fresh[i].word[k] &= ~old.word[k];
  }
  int counts[kLoads], before_lane[kLoads];
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    counts[i] = 0;
    for (int k = 0; k < kWide; ++k) counts[i] += __popc(fresh[i].word[k]);
    const int up_to = inclusive_sum(counts[i]);
    before_lane[i] = up_to - counts[i];
    if (lane_index() == 31) sums[i * kWarpsABlock + warp] = up_to;
  }
  __syncthreads();
  if (warp == 0) {
    const int sum = lane_index() < kLoads * kWarpsABlock ? sums[lane_index()] : 0;
    const int up_to = inclusive_sum(sum);
    if (lane_index() < kLoads * kWarpsABlock) sums[lane_index()] = up_to - sum;
    const int total = __shfl_sync(kAllLanes, up_to, 31);
    const Count before = look_back(chain, tile, total);
    if (lane_index() == 0) {
      shared_before = *num_known + before;
      if (tile == gridDim.x - 1) *num_nodes = shared_before + total;
    }
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const Count vector = first_vector + i * kThreads;
    const NodeId first_node = (vector - lane_index()) * kWide * kWordBits;
    Count id = shared_before + sums[i * kWarpsABlock + warp] + before_lane[i];
    const bool any = __ballot_sync(kAllLanes, counts[i] != 0) != 0;
#pragma unroll
    for (int k = 0; k < kWide; ++k) {
      const std::uint32_t word = fresh[i].word[k];
      ranks[vector * kWide + k] = {word, static_cast<std::int32_t>(id)};
      if (any) emit<kWide>(word, k, first_node, id, nodes);
      id += __popc(word);
    }
    if (counts[i] != 0) known[vector] = met[vector];
  }
}

/// Where the local ids of a minibatch are found.
struct LocalIds {
  const WordRank* ranks;  // [hops, num_words]
  Count num_words;
  int hop;
  const std::int32_t* seed_ids;

  __device__ std::int32_t find(NodeId node) const {
    const Count word = node / kWordBits;
    const std::uint32_t bit = 1u << (static_cast<std::uint32_t>(node) % kWordBits);
    for (int h = hop; h >= 0; --h) {  // most were met now
      const WordRank rank = ranks[h * num_words + word];
      if ((rank.bits & bit) != 0) return rank.first + __popc(rank.bits & (bit - 1));
    }
    return seed_ids[node];
  }
};

template <typename Index, typename Id>
__global__ void relabel_neighbors(DeviceEdges<Id> edges, LocalIds local_ids, std::int32_t* out) {
  visit_entries<Index>(edges, [&](Index e) { out[e] = local_ids.find(edges.neighbors[e]); });
}

Count words_of_state(Count num_tiles) { return num_tiles * 2 + 2; }  // 64-bit states, the ticket, padding

Count tiles_of(Count num_nodes, int words_a_thread) {
  const Count nodes_a_tile = Count{kThreads} * words_a_thread * kWordBits;
  return std::max<Count>(1, (num_nodes + nodes_a_tile - 1) / nodes_a_tile);
}

}  // namespace

template <typename Id>
DeviceCompactor<Id>::DeviceCompactor(Count num_nodes, int num_hops, Device device)
    : words_a_thread_(num_nodes >= kManyNodes ? kManyWords : kFewWords),
      num_tiles_(tiles_of(num_nodes, words_a_thread_)),
      num_words_(num_tiles_ * kThreads * words_a_thread_),
      bits_(cuda::Memory::device, 2 * num_words_ + num_hops * words_of_state(num_tiles_),
            "the sampler's bits", device),
      ranks_(cuda::Memory::device, num_hops * num_words_, "local ids of the sampler", device),
      seed_ids_(cuda::Memory::device, std::max<Count>(1, num_nodes), "local ids of the sampler", device) {}

template <typename Id>
void DeviceCompactor<Id>::start(const SeedList* seeds, Count bound, NodeId* nodes, Count* num_nodes,
                                bool extensible, const cuda::Stream& stream) {
  if (extensible)
    cuda::fill_async(bits_.data(), 0, static_cast<std::size_t>(bits_.size()) * sizeof(std::uint32_t), stream);
  place_seeds<<<blocks_for(bound), kThreads, 0, stream.get()>>>(seeds, extensible ? met() : nullptr, known(),
                                                                nodes, seed_ids_.data(), num_nodes);
  cuda::check_launch("place_seeds");
}

template <typename Id>
void DeviceCompactor<Id>::mark_all(const DeviceEdges<Id>& edges, const cuda::Stream& stream) {
  const unsigned blocks = blocks_for(edges.bound);
  if (edges.bound < kShort) {
    mark_neighbors<std::uint32_t><<<blocks, kThreads, 0, stream.get()>>>(edges, met());
  } else {
    mark_neighbors<std::uint64_t><<<blocks, kThreads, 0, stream.get()>>>(edges, met());
  }
  cuda::check_launch("mark_neighbors");
}

template <typename Id>
void DeviceCompactor<Id>::extend(int hop, NodeId* nodes, const Count* num_known, Count* num_nodes,
                                 const cuda::Stream& stream) {
  std::uint32_t* state = bits_.data() + 2 * num_words_ + hop * words_of_state(num_tiles_);
  const TileChain chain{reinterpret_cast<unsigned long long*>(state), state + 2 * num_tiles_};
  const Bits bits{met(), known()};
  WordRank* ranks = ranks_.data() + hop * num_words_;
  const auto tiles = static_cast<unsigned>(num_tiles_);
  if (words_a_thread_ == kFewWords) {
    number_new<kFewWords, 1>
        <<<tiles, kThreads, 0, stream.get()>>>(bits, chain, ranks, nodes, num_known, num_nodes);
  } else {
    number_new<kManyWords / 4, 4>
        <<<tiles, kThreads, 0, stream.get()>>>(bits, chain, ranks, nodes, num_known, num_nodes);
  }
  cuda::check_launch("number_new");
}

template <typename Id>
void DeviceCompactor<Id>::relabel(int hop, const DeviceEdges<Id>& edges, std::int32_t* local_ids,
                                  const cuda::Stream& stream) const {
  const unsigned blocks = blocks_for(edges.bound);
  const LocalIds known_ids{ranks_.data(), num_words_, hop, seed_ids_.data()};
  if (edges.bound < kShort) {
    relabel_neighbors<std::uint32_t><<<blocks, kThreads, 0, stream.get()>>>(edges, known_ids, local_ids);
  } else {
    relabel_neighbors<std::uint64_t><<<blocks, kThreads, 0, stream.get()>>>(edges, known_ids, local_ids);
  }
  cuda::check_launch("relabel_neighbors");
}

template class DeviceCompactor<std::int32_t>;
template class DeviceCompactor<std::int64_t>;

}  // namespace strata::sampling
