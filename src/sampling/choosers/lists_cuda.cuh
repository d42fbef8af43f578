// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <type_traits>

#include "choosers/pick_chooser_cuda.hpp"
#include "launch_cuda.cuh"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/copy.hpp"
#include "strata/cuda/stream.hpp"

/// What choosers share that look at whole neighbor lists: a warp a list, a block a long one.
namespace strata::sampling {

inline constexpr int kMostStride = 64;  // beyond, few nodes fill their room

/// An array of a GraphView as kernels read it where it has no copies.
template <typename T>
struct WholeArray {
  const T* data = nullptr;

  template <typename Copies>
  explicit WholeArray(const T* data_, const Copies&) : data(data_) {}
  __device__ T operator[](Count i) const { return __ldg(data + i); }
  /// The elements from `begin` on.
  __device__ WholeArray from(Count begin) const {
    WholeArray rest = *this;
    rest.data += begin;
    return rest;
  }
};

/// Likewise where some elements have copies in the memory of GPUs. Large, as are DividedEntries: of a
/// kernel's parameter, a __grid_constant__, references are passed on.
template <typename T>
struct DividedArray {
  const T* data = nullptr;
  tensor::ArrayStrata copies;

  DividedArray(const T* data_, const tensor::ArrayStrata& copies_) : data(data_), copies(copies_) {}
  __device__ T operator[](Count i) const { return __ldg(tensor::element(data, copies, i)); }
};

/// An array of the lists' entries where some lists have copies there.
template <typename T>
struct DividedEntries {
  const T* data = nullptr;
  store::CachedEntries copies;

  DividedEntries(const T* data_, const store::CachedEntries& copies_) : data(data_), copies(copies_) {}
  __device__ T operator[](Count position) const { return __ldg(store::entry(data, copies, position)); }

  struct Rest {
    const DividedEntries* array;
    Count begin;
    // A call: races look at every element of a list from many places, and would each have a copy of it.
    __noinline__ __device__ T operator[](Count i) const { return (*array)[begin + i]; }
  };
  __device__ Rest from(Count begin) const { return {this, begin}; }
};

template <typename T, bool kDivided>
using DeviceArray = std::conditional_t<kDivided, DividedArray<T>, WholeArray<T>>;
template <typename T, bool kDivided>
using DeviceEntries = std::conditional_t<kDivided, DividedEntries<T>, WholeArray<T>>;

/// An IdSpan: a branch that all lanes take alike, instead of a kernel for every width.
template <bool kDivided>
struct DeviceIds {
  DeviceEntries<std::byte, kDivided> array;  // of either width
  bool wide;

  explicit DeviceIds(const IdSpan& ids, const store::CachedEntries& copies = {})
      : array(static_cast<const std::byte*>(ids.data), copies), wide(ids.wide) {}
  template <typename T>
  __device__ T at(Count i) const {
    const T* data = reinterpret_cast<const T*>(array.data);
    if constexpr (kDivided)
      return __ldg(store::entry(data, array.copies, i));
    else
      return __ldg(data + i);
  }
  __device__ NodeId operator[](Count i) const { return wide ? at<std::int64_t>(i) : at<std::int32_t>(i); }
};

/// Which lists have copies elsewhere.
template <bool kDivided>
struct DeviceListCopies {
  explicit DeviceListCopies(const store::AdjacencyCacheView&) {}
  template <typename Indptr>
  __device__ Count position(const Indptr&, Count, Count begin) const {
    return begin;
  }
};
template <>
struct DeviceListCopies<true> {
  store::AdjacencyCacheView copies;

  explicit DeviceListCopies(const store::AdjacencyCacheView& copies_) : copies(copies_) {}
  /// Of a node's list, which begins at `begin`.
  template <typename Indptr>
  __device__ Count position(const Indptr& indptr, Count node, Count begin) const {
    return position_of_list(copies, indptr, node, begin);
  }
};

/// A GraphView as kernels read it. Divided lists are a kernel's of their own, so that those that lie whole in
/// one place cost nothing more: not even a byte of parameters.
template <bool kDivided>
struct DeviceLists : DeviceListCopies<kDivided> {
  static constexpr bool divided = kDivided;
  NodeId first_node = 0;
  Count num_local = 0;
  DeviceArray<Count, kDivided> indptr;
  DeviceIds<kDivided> indices, edge_ids;
  DeviceIds<false> original_ids;
  DeviceEntries<float, kDivided> weights;

  explicit DeviceLists(const store::GraphView& view)
      : DeviceListCopies<kDivided>(view.copies.lists),
        first_node(view.first_node),
        num_local(view.num_local),
        indptr(view.indptr, view.copies.indptr),
        indices(view.indices, view.copies.indices),
        edge_ids(view.edge_ids, view.copies.edge_ids),
        original_ids(view.original_ids),
        weights(view.weights, view.copies.weights) {}

  /// Without a key. Empty for another machine's node.
  __device__ DeviceRange range(NodeId node) const {
    const Count local = node - first_node;
    if (local < 0 || local >= num_local) return {};
    const Count begin = indptr[local], end = indptr[local + 1];
    return {.begin = this->position(indptr, local, begin), .degree = end - begin, .key = 0};
  }
  __device__ std::uint64_t choice_key(NodeId node, const DeviceQuery& query) const {
    return node_key(*query.key, RandomUse::sample, query.hop, original_ids[node]);
  }
};

inline bool is_divided(const store::GraphView& view) {
  return view.copies.indptr.num_segments > 0 || view.copies.indices.any();
}

/// Calls visitor(DeviceLists) for the view.
template <typename Visitor>
void visit_lists(const store::GraphView& view, Visitor&& visitor) {
  if (is_divided(view))
    visitor(DeviceLists<true>(view));
  else
    visitor(DeviceLists<false>(view));
}

/// Writes chosen edges to where the output wants them.
template <typename Id, typename Lists>
struct PickWriter {
  Lists lists;
  DevicePickOutput<Id> out;
  int fanout;

  __device__ bool strided() const { return out.offsets == nullptr; }
  __device__ Count first_pick(Count i) const { return strided() ? i * fanout : out.offsets[i]; }

  __device__ void put(Count pick, Count edge) const {
    if (pick >= out.edge_bound) return;  // of methods whose picks no fanout bounds
    const NodeId neighbor = lists.indices[edge];
    out.neighbors[pick] = static_cast<Id>(neighbor);
    if (out.edge_ids != nullptr) out.edge_ids[pick] = lists.edge_ids[edge];
    if (out.met != nullptr) mark(out.met, neighbor);
  }
};

/// Nodes of a query whose lists are too long for a warp, found by one kernel and served by the next, a block
/// each. Their order changes from run to run; nothing depends on it.
struct DeviceHubs {
  std::int32_t* nodes = nullptr;  ///< places in the frontier
  std::int32_t* count = nullptr;

  __device__ void add(Count i) const { nodes[atomicAdd(count, 1)] = static_cast<std::int32_t>(i); }
};

/// Memory of DeviceHubs; an owner.
class HubList {
 public:
  explicit HubList(Device device) : count_(cuda::Memory::device, 1, "long lists of a hop", device) {}

  /// Empties the list and makes room for the nodes of a query.
  DeviceHubs start(Count bound, const cuda::Stream& stream) {
    reserve(nodes_, cuda::Memory::device, bound, 0, "long lists of a hop", stream);
    cuda::fill_async(count_.data(), 0, sizeof(std::int32_t), stream);
    return hubs();
  }
  DeviceHubs hubs() const { return {nodes_.data(), count_.data()}; }

 private:
  cuda::Array<std::int32_t> nodes_, count_;
};

/// Nodes of a query whose lists are too long for a block: many blocks take a segment each. Where there is no
/// room for another (nodes that repeat), a node is a hub.
struct DeviceGiants {
  static constexpr Count kMostInBlock = Count{1} << 16, kSegment = Count{1} << 14;

  std::int32_t* nodes = nullptr;     ///< places in the frontier
  std::int32_t* segments = nullptr;  ///< number of each one's first segment
  std::int32_t* counts = nullptr;    ///< of giants, of segments
  std::int32_t room = 0;             ///< for segments

  __device__ static std::int32_t segments_of(Count degree) {
    return static_cast<std::int32_t>((degree + kSegment - 1) / kSegment);
  }
  __device__ bool add(Count i, Count degree) const {
    const std::int32_t own = segments_of(degree);
    if (room == 0 || own > room) return false;
    const std::int32_t first = atomicAdd(counts + 1, own);
    if (first > room - own) return false;
    const std::int32_t g = atomicAdd(counts, 1);
    nodes[g] = static_cast<std::int32_t>(i);
    segments[g] = first;
    return true;
  }
};

/// Memory of DeviceGiants; an owner.
class GiantList {
 public:
  /// Room for every giant of the view once. Waits for the device.
  explicit GiantList(const store::GraphView& view);

  /// Most segments of a query.
  Count num_segments() const { return nodes_.size(); }
  bool any() const { return num_segments() > 0; }

  /// Empties the list.
  DeviceGiants start(const cuda::Stream& stream) {
    if (any()) cuda::fill_async(counts_.data(), 0, 2 * sizeof(std::int32_t), stream);
    return giants();
  }
  DeviceGiants giants() const {
    return {nodes_.data(), segments_.data(), counts_.data(), static_cast<std::int32_t>(num_segments())};
  }

 private:
  cuda::Array<std::int32_t> nodes_, segments_, counts_;
};

/// A piece of a giant's list.
struct GiantSegment {
  std::int32_t number;        ///< over all giants
  std::int32_t first_number;  ///< of the giant's segments
  Count first, end;           ///< positions
};

/// Calls body(i, segment) for all segments, by whole blocks; `degree_of(i)` tells how long the list is.
template <typename DegreeOf, typename Body>
__device__ void for_each_segment(const DeviceGiants& giants, DegreeOf&& degree_of, Body&& body) {
  const auto num_blocks = static_cast<std::int32_t>(gridDim.x);
  for (std::int32_t g = 0; g < giants.counts[0]; ++g) {
    const Count i = giants.nodes[g], degree = degree_of(i);
    const std::int32_t first = giants.segments[g];
    // Each giant begins at another block.
    for (std::int32_t s = (static_cast<std::int32_t>(blockIdx.x) + g * 29) % num_blocks;
         s < DeviceGiants::segments_of(degree); s += num_blocks) {
      const Count begin = s * DeviceGiants::kSegment;
      body(i, GiantSegment{first + s, first, begin, min(degree, begin + DeviceGiants::kSegment)});
    }
  }
}

/// Calls body(i, number of its first segment) for the giants, by whole blocks.
template <typename Body>
__device__ void for_each_giant(const DeviceGiants& giants, Body&& body) {
  for (auto g = static_cast<std::int32_t>(blockIdx.x); g < giants.counts[0];
       g += static_cast<std::int32_t>(gridDim.x))
    body(Count{giants.nodes[g]}, giants.segments[g]);
}

/// Calls body(i) for the nodes of a frontier, by whole warps.
template <typename Body>
__device__ void for_each_node(Count num_nodes, Body&& body) {
  const Count num_warps = static_cast<Count>(gridDim.x) * kWarpsPerBlock;
  for (Count i = static_cast<Count>(blockIdx.x) * kWarpsPerBlock + threadIdx.x / kWarp; i < num_nodes;
       i += num_warps)
    body(i);
}

/// Calls body(i) for the hubs, by whole blocks.
template <typename Body>
__device__ void for_each_hub(const DeviceHubs& hubs, Body&& body) {
  const std::int32_t num_hubs = *hubs.count;
  for (std::int32_t h = static_cast<std::int32_t>(blockIdx.x); h < num_hubs;
       h += static_cast<std::int32_t>(gridDim.x))
    body(Count{hubs.nodes[h]});
}

/// counts[i] = 0 for i from the number of nodes to the bound (exclusive or inclusive), which no warp visits.
template <typename Number>
__device__ void clear_rest(Number* counts, Count num_nodes, Count end) {
  for (Count i = num_nodes + first_item<Count>(); i < end; i += item_stride<Count>()) counts[i] = 0;
}

/// *total += what the threads of a block add up to; null: nothing. Called by all threads, once a kernel.
__device__ inline void add_to_total(Count* total, std::uint32_t own) {
  if (total == nullptr) return;
  __shared__ unsigned long long sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  own = __reduce_add_sync(kAllLanes, own);
  if (lane_index() == 0 && own > 0) atomicAdd(&sum, static_cast<unsigned long long>(own));
  __syncthreads();
  if (threadIdx.x == 0 && sum > 0) atomicAdd(reinterpret_cast<unsigned long long*>(total), sum);
}

/// Blocks for a warp a node, or for hubs.
inline unsigned blocks_for_warps(Count bound) { return blocks_for(std::min(bound, Count{1} << 40) * kWarp); }
inline constexpr unsigned kHubBlocks = 132 * 8;

/// Positions of a list.
struct Stretch {
  Count first, end;
};

/// Puts the places of a stretch that `takes(position)` names into picks from first_pick on, in the order of
/// the list; by a block.
template <typename Writer, typename Takes>
__device__ void put_by_block(const Writer& writer, const DeviceRange& range, const Stretch& stretch,
                             Count first_pick, Takes&& takes) {
  constexpr int kRounds = 4;
  constexpr Count kTile = Count{kThreads} * kRounds;
  __shared__ std::uint32_t warp_counts[kWarpsPerBlock];
  const unsigned warp = threadIdx.x / kWarp;
  std::uint32_t before = 0;  // taken by earlier tiles
  for (Count tile = stretch.first; tile < stretch.end; tile += kTile) {
    const Count begin = tile + warp * (kWarp * kRounds) + lane_index();
    unsigned taken[kRounds];
    std::uint32_t count = 0;
    for (int r = 0; r < kRounds; ++r) {
      const Count position = begin + r * kWarp;
      taken[r] = __ballot_sync(kAllLanes, position < stretch.end && takes(position));
      count += static_cast<std::uint32_t>(__popc(taken[r]));
    }
    __syncthreads();
    if (lane_index() == 0) warp_counts[warp] = count;
    __syncthreads();
    std::uint32_t rank = before;
    for (unsigned w = 0; w < kWarpsPerBlock; ++w) {
      if (w < warp) rank += warp_counts[w];
      before += warp_counts[w];
    }
    for (int r = 0; r < kRounds; ++r) {
      if ((taken[r] >> lane_index()) & 1u)
        writer.put(first_pick + rank + __popc(taken[r] & lanes_below()), range.begin + begin + r * kWarp);
      rank += static_cast<std::uint32_t>(__popc(taken[r]));
    }
  }
}

}  // namespace strata::sampling
