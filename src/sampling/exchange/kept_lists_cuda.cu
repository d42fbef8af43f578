// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "exchange/kept_lists_cuda.hpp"
#include "strata/cuda/buffer.hpp"

namespace strata::sampling {
namespace {

constexpr auto kDevice = cuda::Memory::device;
constexpr const char* kWhat = "neighbor lists of other machines' nodes";

struct KeptNodes {
  NodeId* nodes;            // positions of their lists
  std::int32_t* positions;  // in the frontier
  Count* count;             // of this hop
  Count room;
};

/// One thread per node reads a few entries of the index. Nodes that repeat, in a frontier that will be
/// refused, may exceed the room, and are asked for.
__global__ void find_kept(DeviceFrontier frontier, Range own, store::NodeIndexView index, NodeId* others,
                          KeptNodes kept, Count* num_kept) {
  std::uint32_t found_here = 0;
  const Count size = *frontier.count;
  for (Count i = first_item<Count>(); i < size; i += item_stride<Count>()) {
    const NodeId node = frontier.nodes[i];
    const bool is_own = node < 0 || (node >= own.first && node - own.first < own.count);
    const Count list = is_own ? -1 : index.find(node);
    others[i] = node;
    if (list < 0) continue;
    const auto place = static_cast<Count>(atomicAdd(reinterpret_cast<unsigned long long*>(kept.count), 1ULL));
    if (place >= kept.room) continue;
    others[i] = -1;
    kept.nodes[place] = list;
    kept.positions[place] = static_cast<std::int32_t>(i);
    ++found_here;
  }
  add_to_total(num_kept, found_here);
}

/// Limits a count to the room.
__global__ void bound_count(Count* count, Count room) { *count = min(*count, room); }

template <typename T>
const T* copied(const T* values, Count count, cuda::Array<T>& copy, const cuda::Stream& stream) {
  copy = cuda::Array<T>(kDevice, count, kWhat, stream.device());
  cuda::copy_async(copy.data(), values, static_cast<std::size_t>(count) * sizeof(T), stream);
  return copy.data();
}

/// Copies ids from `first` on, in their own width.
IdSpan copied(const IdSpan& ids, Count first, Count count, cuda::Array<std::byte>& copy,
              const cuda::Stream& stream) {
  IdSpan result{.data = nullptr, .size = count, .wide = ids.wide};
  const Count width = ids.wide ? sizeof(std::int64_t) : sizeof(std::int32_t);
  const auto* bytes = static_cast<const std::byte*>(ids.data) + first * width;
  result.data = copied(bytes, count * width, copy, stream);
  return result;
}

}  // namespace

template <typename Id>
KeptLists<Id>::KeptLists(const store::HaloLists& lists, const Range& own, const SamplerOptions& options,
                         Device device)
    : own_(own),
      wants_edge_ids_(options.edge_ids),
      index_(&lists.index, device),
      view_(copy_lists(lists.view, cuda::Stream(device))),
      chooser_(make_device_chooser<Id>(view_, options)),
      choice_(device),
      packed_choice_(device),
      num_kept_(kDevice, 1, kWhat, device) {}

template <typename Id>
store::GraphView KeptLists<Id>::copy_lists(const store::GraphView& host, const cuda::Stream& stream) {
  const Count num_lists = host.num_local, num_edges = host.indices.size;
  store::GraphView view;
  view.device = stream.device();
  view.num_nodes = view.num_local = num_lists;
  view.indptr = copied(host.indptr, num_lists + 1, indptr_, stream);
  view.indices = copied(host.indices, 0, num_edges, indices_, stream);
  if (wants_edge_ids_) view.edge_ids = copied(host.edge_ids, 0, num_edges, edge_ids_, stream);
  if (host.weights != nullptr) view.weights = copied(host.weights, num_edges, weights_, stream);
  view.original_ids = copied(host.original_ids, host.first_node, num_lists, original_ids_, stream);
  if (host.sublists.first != nullptr) view.sublists = copy_sublists(host, stream);
  stream.synchronize();
  return view;
}

template <typename Id>
store::SublistsView KeptLists<Id>::copy_sublists(const store::GraphView& host, const cuda::Stream& stream) {
  store::SublistsView view = host.sublists;
  view.first = copied(view.first, host.num_local + 1, first_sublists_, stream);
  view.begins = copied(view.begins, view.count + 1, sublist_begins_, stream);
  view.nodes = copied(view.nodes, view.count, sublist_nodes_, stream);
  view.relations = copied(view.relations, view.count, sublist_relations_, stream);
  return view;
}

template <typename Id>
void KeptLists<Id>::find(const DeviceFrontier& frontier, Count* num_kept, const cuda::Stream& stream) {
  const Count room = std::min(frontier.bound, view_.num_local);
  reserve(others_, kDevice, frontier.bound, 0, kWhat, stream);
  reserve(kept_, kDevice, room, 0, kWhat, stream);
  reserve(positions_, kDevice, room, 0, kWhat, stream);
  placed_ = {.positions = positions_.data(), .num_lists = room};
  cuda::fill_async(num_kept_.data(), 0, sizeof(Count), stream);
  constexpr int kNone = 0xFF;  // all bits: -1
  cuda::fill_async(positions_.data(), kNone, static_cast<std::size_t>(room) * sizeof(std::int32_t), stream);
  find_kept<<<blocks_for(frontier.bound), kThreads, 0, stream.get()>>>(
      frontier, own_, index_.view(), others_.data(),
      KeptNodes{kept_.data(), positions_.data(), num_kept_.data(), room}, num_kept);
  cuda::check_launch("find_kept");
  bound_count<<<1, 1, 0, stream.get()>>>(num_kept_.data(), room);
  cuda::check_launch("bound_count");
}

template <typename Id>
void KeptLists<Id>::choose(const DeviceQuery& query, const Batch& batch, const cuda::Stream& stream) {
  if (!placed_.any()) return;
  DeviceQuery of_kept = query;
  of_kept.excluded = query.excluded_of_halo;
  of_kept.frontier = {kept_.data(), num_kept_.data(), placed_.num_lists};
  if (chooser_->bounded_by_fanout()) {
    placed_.strided = room_.reserve_for(placed_.num_lists, query.fanout, wants_edge_ids_, stream);
    choice_.run(of_kept, *chooser_, placed_.strided, stream);
  } else {
    placed_.packed =
        packed_room_.reserve_for({1, placed_.num_lists, batch.edge_bound}, wants_edge_ids_, stream);
    packed_choice_.run(of_kept, *chooser_, placed_.packed, batch.overflow, stream);
  }
}

template class KeptLists<std::int32_t>;
template class KeptLists<std::int64_t>;

}  // namespace strata::sampling
