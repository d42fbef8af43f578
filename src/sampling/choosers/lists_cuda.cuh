// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <type_traits>

#include "choosers/excluded.hpp"
#include "choosers/pick_chooser_cuda.hpp"
#include "launch_cuda.cuh"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"

/// What choosers share that read whole neighbor lists: one warp per list, one block per long list.
namespace strata::sampling {

inline constexpr int kMostStride = 64;  // with longer strides few nodes fill their room

/// An array of a GraphView without copies, as kernels read it.
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

/// The same with copies of some elements in the memory of GPUs. It is as large as DividedEntries, so kernels
/// take it as a __grid_constant__ parameter and pass on references.
template <typename T>
struct DividedArray {
  const T* data = nullptr;
  tensor::ArrayStrata copies;

  DividedArray(const T* data_, const tensor::ArrayStrata& copies_) : data(data_), copies(copies_) {}
  __device__ T operator[](Count i) const { return __ldg(tensor::element(data, copies, i)); }
};

/// An array of the lists' entries, with copies of some lists in the memory of GPUs.
template <typename T>
struct DividedEntries {
  const T* data = nullptr;
  store::CachedEntries copies;

  DividedEntries(const T* data_, const store::CachedEntries& copies_) : data(data_), copies(copies_) {}
  __device__ T operator[](Count position) const { return __ldg(store::entry(data, copies, position)); }

  struct Rest {
    const DividedEntries* array;
    Count begin;
    // Not inlined, because races read list elements from many places of the code, and each would get a copy
    // of this.
    __noinline__ __device__ T operator[](Count i) const { return (*array)[begin + i]; }
  };
  __device__ Rest from(Count begin) const { return {this, begin}; }
};

template <typename T, bool kDivided>
using DeviceArray = std::conditional_t<kDivided, DividedArray<T>, WholeArray<T>>;
template <typename T, bool kDivided>
using DeviceEntries = std::conditional_t<kDivided, DividedEntries<T>, WholeArray<T>>;

/// An IdSpan as kernels read it. All lanes take the same branch on the width, which saves one kernel per
/// width.
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

/// Finds the copies of lists; without copies it returns the lists themselves.
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
  /// The position from which to read a node's list, which begins at `begin`.
  template <typename Indptr>
  __device__ Count position(const Indptr& indptr, Count node, Count begin) const {
    return position_of_list(copies, indptr, node, begin);
  }
};

/// The weights of a list, in which an excluded entry weighs nothing.
template <typename Weights>
struct WeightsWithout {
  Weights weights;
  ExcludedOfList excluded;

  __device__ float operator[](Count place) const { return excluded.holds(place) ? 0.0f : weights[place]; }
};

/// A GraphView as kernels read it. Lists with copies have kernels of their own, so that graphs without copies
/// pay nothing for them, not even a byte of parameters.
template <bool kDivided>
struct DeviceLists : DeviceListCopies<kDivided> {
  static constexpr bool divided = kDivided;
  NodeId first_node = 0;
  Count num_local = 0;
  RelationId relation = 0;
  store::ListKeys keys;
  DeviceArray<Count, kDivided> indptr;
  DeviceIds<kDivided> indices, edge_ids;
  DeviceIds<false> original_ids;
  DeviceEntries<float, kDivided> weights;

  explicit DeviceLists(const store::GraphView& view)
      : DeviceListCopies<kDivided>(view.copies.lists),
        first_node(view.first_node),
        num_local(view.num_local),
        relation(view.number),
        keys(view.keys),
        indptr(view.indptr, view.copies.indptr),
        indices(view.indices, view.copies.indices),
        edge_ids(view.edge_ids, view.copies.edge_ids),
        original_ids(view.original_ids),
        weights(view.weights, view.copies.weights) {}

  /// The range of a node's list, without a key; empty for a node of another machine.
  __device__ DeviceRange range(NodeId node, const DeviceQuery& query) const {
    const Count local = node - first_node;
    if (local < 0 || local >= num_local || !keys.takes(node)) return {};
    const Count begin = indptr[local], end = indptr[local + 1];
    DeviceRange range{.begin = this->position(indptr, local, begin), .degree = end - begin, .key = 0};
    if (query.excluded != nullptr) find_excluded(*query.excluded, begin, range);
    return range;
  }
  __device__ static void find_excluded(const DeviceExcluded& excluded, Count begin, DeviceRange& range) {
    const Count first = first_entry(excluded.entries, excluded.count, begin);
    range.origin = begin;
    range.first_excluded = static_cast<std::int32_t>(first);
    range.num_excluded = static_cast<std::int32_t>(
        first_entry(excluded.entries + first, excluded.count - first, begin + range.degree));
  }
  __device__ static ExcludedOfList excluded_of(const DeviceRange& range, const DeviceQuery& query) {
    if (range.num_excluded == 0) return {};
    return {query.excluded->entries + range.first_excluded, range.num_excluded, range.origin};
  }
  /// The position from which choice number `choice` of a list is read.
  __device__ static Count entry_of(const DeviceRange& range, const DeviceQuery& query, Count choice) {
    return range.begin + (range.num_excluded == 0 ? choice : excluded_of(range, query).place_of(choice));
  }
  __device__ auto weights_of(const DeviceRange& range, const DeviceQuery& query) const {
    const auto of_list = weights.from(range.begin);
    return WeightsWithout<std::remove_const_t<decltype(of_list)>>{of_list, excluded_of(range, query)};
  }
  __device__ std::uint64_t choice_key(NodeId node, const DeviceQuery& query) const {
    return node_key(*query.key, RandomUse::sample, query.hop, original_ids[keys.node_of(node)],
                    keys.relation_of(node, relation));
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
    if (pick >= out.edge_bound) return;  // possible for methods that the fanout does not bound
    const NodeId neighbor = lists.indices[edge];
    out.neighbors[pick] = static_cast<Id>(neighbor);
    if (out.edge_ids != nullptr) out.edge_ids[pick] = lists.edge_ids[edge];
    if (out.met != nullptr) mark(out.met, neighbor);
  }
};

/// Nodes of a query whose lists are too long for one warp. One kernel finds them, and the next one serves
/// them with one block per node. Their order changes from run to run; nothing depends on it.
struct DeviceHubs {
  std::int32_t* nodes = nullptr;  ///< places in the frontier
  std::int32_t* count = nullptr;

  __device__ void add(Count i) const { nodes[atomicAdd(count, 1)] = static_cast<std::int32_t>(i); }
};

/// Memory of DeviceHubs; an owner.
class HubList {
 public:
  explicit HubList(Device device) : count_(cuda::Memory::device, 1, "long lists of a hop", device) {}

  /// Clears the list and makes room for the nodes of a query.
  DeviceHubs start(Count bound, const cuda::Stream& stream) {
    reserve(nodes_, cuda::Memory::device, bound, 0, "long lists of a hop", stream);
    cuda::fill_async(count_.data(), 0, sizeof(std::int32_t), stream);
    return hubs();
  }
  DeviceHubs hubs() const { return {nodes_.data(), count_.data()}; }

 private:
  cuda::Array<std::int32_t> nodes_, count_;
};

/// Nodes of a query whose lists are too long for one block, so that many blocks take one segment each. If
/// there is no room for another one, because nodes repeat, the node becomes a hub.
struct DeviceGiants {
  static constexpr Count kMostInBlock = Count{1} << 16, kSegment = Count{1} << 14;

  std::int32_t* nodes = nullptr;     ///< places in the frontier
  std::int32_t* segments = nullptr;  ///< index of each node's first segment
  std::int32_t* counts = nullptr;    ///< [2] numbers of giants and of segments
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
  /// Makes room for every giant of the view once. Waits for the device.
  explicit GiantList(const store::GraphView& view);

  /// The most segments that a query can have.
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
  std::int32_t number;        ///< index among the segments of all giants
  std::int32_t first_number;  ///< index of the giant's first segment
  Count first, end;           ///< positions
};

/// Whole blocks call body(i, segment) for all segments; `degree_of(i)` is the length of the list of node i.
template <typename DegreeOf, typename Body>
__device__ void for_each_segment(const DeviceGiants& giants, DegreeOf&& degree_of, Body&& body) {
  const auto num_blocks = static_cast<std::int32_t>(gridDim.x);
  for (std::int32_t g = 0; g < giants.counts[0]; ++g) {
    const Count i = giants.nodes[g], degree = degree_of(i);
    const std::int32_t first = giants.segments[g];
    // Each giant begins at a different block.
    for (std::int32_t s = (static_cast<std::int32_t>(blockIdx.x) + g * 29) % num_blocks;
         s < DeviceGiants::segments_of(degree); s += num_blocks) {
      const Count begin = s * DeviceGiants::kSegment;
      body(i, GiantSegment{first + s, first, begin, min(degree, begin + DeviceGiants::kSegment)});
    }
  }
}

/// Whole blocks call body(i, index of its first segment) for all giants.
template <typename Body>
__device__ void for_each_giant(const DeviceGiants& giants, Body&& body) {
  for (auto g = static_cast<std::int32_t>(blockIdx.x); g < giants.counts[0];
       g += static_cast<std::int32_t>(gridDim.x))
    body(Count{giants.nodes[g]}, giants.segments[g]);
}

/// Whole warps call body(i) for all nodes of a frontier.
template <typename Body>
__device__ void for_each_node(Count num_nodes, Body&& body) {
  const Count num_warps = static_cast<Count>(gridDim.x) * kWarpsPerBlock;
  for (Count i = static_cast<Count>(blockIdx.x) * kWarpsPerBlock + threadIdx.x / kWarp; i < num_nodes;
       i += num_warps)
    body(i);
}

/// Whole blocks call body(i) for all hubs.
template <typename Body>
__device__ void for_each_hub(const DeviceHubs& hubs, Body&& body) {
  const std::int32_t num_hubs = *hubs.count;
  for (std::int32_t h = static_cast<std::int32_t>(blockIdx.x); h < num_hubs;
       h += static_cast<std::int32_t>(gridDim.x))
    body(Count{hubs.nodes[h]});
}

/// Sets counts[num_nodes .. end) to 0, because no warp visits them.
template <typename Number>
__device__ void clear_rest(Number* counts, Count num_nodes, Count end) {
  for (Count i = num_nodes + first_item<Count>(); i < end; i += item_stride<Count>()) counts[i] = 0;
}

/// Number of blocks for one warp per node.
inline unsigned blocks_for_warps(Count bound) { return blocks_for(std::min(bound, Count{1} << 40) * kWarp); }
inline constexpr unsigned kHubBlocks = 132 * 8;

/// Positions of a list.
struct Stretch {
  Count first, end;
};

/// A whole block writes the positions of a stretch for which `takes(position)` holds to the picks from
/// first_pick on, in the order of the list.
template <typename Writer, typename Takes>
__device__ void put_by_block(const Writer& writer, const DeviceRange& range, const Stretch& stretch,
                             Count first_pick, Takes&& takes) {
  constexpr int kRounds = 4;
  constexpr Count kTile = Count{kThreads} * kRounds;
  __shared__ std::uint32_t warp_counts[kWarpsPerBlock];
  const unsigned warp = threadIdx.x / kWarp;
  std::uint32_t before = 0;  // picks of earlier tiles
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
