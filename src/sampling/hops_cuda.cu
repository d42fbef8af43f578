// SPDX-License-Identifier: Apache-2.0
#include "choosers/pick_chooser_cuda.hpp"
#include "hops_cuda.hpp"
#include "node_kernels_cuda.cuh"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::sampling {
namespace {

constexpr auto kDevice = cuda::Memory::device;
constexpr Count kSpareEdges = 4096;

__global__ void read_edge_count(const Count* indptr, const Count* num_dst, Count* num_edges) {
  *num_edges = indptr[*num_dst];
}

/// Cuts lists off at the end of their room, so that later work stays within it, and sets *wanted to the full
/// size, and *overflow to 1 if that is more; null: nobody asks.
__global__ void clamp_offsets(Count* offsets, Count size, Count room, const Count* num_dst, Count* wanted,
                              Count* overflow) {
  for (Count i = first_item<Count>(); i < size; i += item_stride<Count>()) {
    if (i == *num_dst) *wanted = offsets[i];
    if (overflow != nullptr && offsets[i] > room) *overflow = 1;
    offsets[i] = std::min(offsets[i], room);
  }
}

/// Copies nodes [*first, *last) to the front of `out`, and their number.
__global__ void take_range(const NodeId* nodes, const Count* first, const Count* last, NodeId* out,
                           Count* count) {
  const Count begin = *first, size = *last - begin;
  for (Count i = first_item<Count>(); i < size; i += item_stride<Count>()) out[i] = nodes[begin + i];
  if (first_item<Count>() == 0) *count = size;
}

/// Computes offsets of a block's lists from those of its last *count nodes, which begin at *first; the nodes
/// before have no edges, and those from `size` on do not exist.
__global__ void lay_out_lists(const Count* offsets, const Count* count, const Count* first, Count size,
                              Count* indptr) {
  for (Count i = first_item<Count>(); i < size; i += item_stride<Count>())
    indptr[i] = i < *first ? 0 : offsets[std::min(i - *first, *count)];
}

void copy_counts(const BufferSet& set, const cuda::Stream& stream) {
  cuda::copy_async(set.host_counts.data(), set.counts.data(),
                   static_cast<std::size_t>(set.counts.size()) * sizeof(Count), stream);
}

}  // namespace

template <typename Id>
DeviceHops<Id>::DeviceHops(const store::GraphView& view, const SamplerOptions& options, bool distributed)
    : view_(view),
      options_(options),
      distributed_(distributed),
      chooser_(make_device_chooser<Id>(view, options)),
      serving_chooser_(distributed ? make_device_chooser<Id>(view, options) : nullptr),
      compactor_({view.num_nodes, num_hops(), options.sorted_inputs}, view.device),
      scan_(view.device),
      transpose_(view.device),
      side_(view.device, distributed ? cuda::kHighestPriority : 0),  // others wait for all of a batch
      local_(view.device, cuda::kHighestPriority),
      forked_(view.device),
      joined_(view.device),
      chosen_(view.device),
      room_(options.fanouts.size(), 0) {}

template <typename Id>
void DeviceHops<Id>::run(BufferSet& set, const RemoteSource<Id>& remote, const cuda::Stream& stream) {
  remote_ = remote;
  const DeviceCounts counts = set.device_counts();
  cuda::fill_async(counts.nodes, 0, static_cast<std::size_t>(set.counts.size()) * sizeof(Count), stream);
  Count bound = std::min(options_.max_seeds, view_.num_nodes);
  reserve_nodes(set.buffers, bound, 0, stream);
  compactor_.start({.seeds = &set.device_header()->seeds,
                    .bound = bound,
                    .nodes = set.buffers.nodes.data(),
                    .num_nodes = counts.nodes,
                    .check = counts.seeds,
                    .extensible = num_compacted() > 0},
                   stream);
  fork(stream);
  describe(set.buffers, nullptr, counts.nodes, bound, true);
  new_bound_ = bound;
  const bool excludes = options_.max_excluded > 0;
  for (int hop = 0; hop < num_hops(); ++hop) {
    if (remote_.staged) {
      const Count* const known = read_counts(set, stream).nodes;
      bound = known[hop];
      new_bound_ = hop == 0 ? bound : bound - known[hop - 1];
    }
    const DeviceQuery query{{set.buffers.nodes.data(), counts.nodes + hop, bound},
                            options_.fanouts[static_cast<std::size_t>(hop)],
                            &set.device_header()->key,
                            static_cast<std::uint32_t>(hop),
                            excludes ? &set.device_header()->excluded : nullptr,
                            excludes ? &set.device_header()->excluded_of_halo : nullptr};
    bound = run_hop(query, set, stream);
  }
  if (options_.sorted_inputs) sort_inputs(set, bound, stream);
  join(stream);
  if (padded_nodes_ > 0) pad_arrays(set, stream);
  if (remote_.exchange != nullptr) remote_.exchange->agree(stream);
  copy_counts(set, stream);
}

template <typename Id>
void DeviceHops<Id>::sort_inputs(BufferSet& set, Count bound, const cuda::Stream& stream) {
  MiniBatchBuffers& buffers = set.buffers;
  reserve(buffers.sorted_nodes, kDevice, bound, 0, "sorted nodes of a minibatch", stream);
  reserve(buffers.sorted_positions, kDevice, bound, 0, "sorted nodes of a minibatch", stream);
  compactor_.sort({.nodes = buffers.nodes.data(),
                   .num_nodes = set.device_counts().nodes + num_hops(),
                   .bound = bound,
                   .sorted = buffers.sorted_nodes.data(),
                   .local_ids = buffers.sorted_positions.data()},
                  stream);
}

template <typename Id>
void DeviceHops<Id>::pad_arrays(const BufferSet& set, const cuda::Stream& stream) const {
  const MiniBatchBuffers& buffers = set.buffers;
  fill_nodes<<<blocks_for(padded_nodes_), kThreads, 0, stream.get()>>>(
      set.device_counts().nodes + num_hops(), padded_nodes_,
      {.nodes = buffers.nodes.data(),
       .original_ids = buffers.original_ids.data(),
       .in_degrees = options_.in_degrees ? buffers.in_degrees.data() : nullptr,
       .sorted_nodes = options_.sorted_inputs ? buffers.sorted_nodes.data() : nullptr,
       .sorted_positions = buffers.sorted_positions.data()});
  cuda::check_launch("fill_nodes");
}

/// Returns an upper bound of the nodes that are known after the hop.
template <typename Id>
Count DeviceHops<Id>::run_hop(const DeviceQuery& query, BufferSet& set, const cuda::Stream& stream) {
  MiniBatchBuffers& buffers = set.buffers;
  HopBuffers& hop = buffers.hops[query.hop];
  const DeviceCounts counts = set.device_counts();
  const bool strided = !remote_.staged && fills_strided(query.fanout);
  const DeviceEdges<Id> edges =
      strided ? choose_strided(query, hop, counts, stream) : choose_packed(query, set, stream);
  new_bound_ = std::min(view_.num_nodes, edges.bound);
  const int number = static_cast<int>(query.hop);
  Count node_bound = query.frontier.bound;
  if (is_last(number) && !options_.compact_inputs) {
    cuda::copy_async(counts.nodes + number + 1, counts.nodes + number, sizeof(Count), stream);
  } else {
    node_bound = bound_of_nodes(query.frontier.bound, edges.bound);
    if (node_bound > buffers.nodes.size()) join(stream);  // the attributes written so far move along
    reserve_nodes(buffers, node_bound, query.frontier.bound, stream);
    compactor_.extend({.number = number,
                       .nodes = buffers.nodes.data(),
                       .num_known = counts.nodes + number,
                       .num_nodes = counts.nodes + number + 1,
                       .last = number + 1 == num_compacted() && !options_.sorted_inputs},
                      stream);
    fork(stream);
    describe(buffers, counts.nodes + number, counts.nodes + number + 1, node_bound,
             !is_last(number) || options_.input_original_ids);
    relabel(query, hop, edges, node_bound, counts, stream);
  }
  return node_bound;
}

/// Work on side_ from here on runs at the same time as the next hop, which does not need it.
template <typename Id>
void DeviceHops<Id>::fork(const cuda::Stream& stream) {
  forked_.record(stream);
  side_.wait(forked_);
}
template <typename Id>
void DeviceHops<Id>::join(const cuda::Stream& stream) {
  joined_.record(side_);
  stream.wait(joined_);
}

/// The wide ids of all hops share one array of neighbors, so the next hop must wait for this one.
template <typename Id>
void DeviceHops<Id>::relabel(const DeviceQuery& query, HopBuffers& hop, const DeviceEdges<Id>& edges,
                             Count node_bound, const DeviceCounts& counts, const cuda::Stream& stream) {
  const bool transposed = query.hop < options_.num_transposes();
  if (transposed) reserve_transpose(hop, node_bound, edges.bound, stream);
  compactor_.relabel(static_cast<int>(query.hop), edges, hop.indices.data(), kInPlace ? side_ : stream);
  if (!transposed) return;
  if (!kInPlace) fork(stream);
  transpose_.run({.num_dst = query.frontier.count,
                  .num_edges = counts.edges + query.hop,
                  .src_bound = node_bound,
                  .entry_bound = edges.bound,
                  .indptr = hop.stride == 0 ? hop.indptr.data() : nullptr,
                  .indices = hop.indices.data(),
                  .stride = hop.stride,
                  .counts = hop.counts.data()},
                 {hop.transposed_indptr.data(), hop.transposed_indices.data()}, side_);
}

template <typename Id>
void DeviceHops<Id>::describe(const MiniBatchBuffers& buffers, const Count* first, const Count* last,
                              Count bound, bool with_original_ids) const {
  if (!with_original_ids && !options_.in_degrees) return;
  view_.original_ids.visit([&](const auto* original_ids) {
    const NodeAttributes<std::remove_cvref_t<decltype(*original_ids)>> attributes{
        original_ids, view_.in_degrees, with_original_ids ? buffers.original_ids.data() : nullptr,
        options_.in_degrees ? buffers.in_degrees.data() : nullptr};
    describe_nodes<<<blocks_for(bound), kThreads, 0, side_.get()>>>(buffers.nodes.data(), first, last,
                                                                    attributes);
    cuda::check_launch("describe_nodes");
  });
}

template <typename Id>
DeviceEdges<Id> DeviceHops<Id>::choose_strided(const DeviceQuery& query, HopBuffers& hop,
                                               const DeviceCounts& counts, const cuda::Stream& stream) {
  const Count bound = query.frontier.bound * query.fanout;
  hop.stride = query.fanout;
  reserve(hop.counts, kDevice, query.frontier.bound, 0, "counts of a block", stream);
  reserve_edges(hop, bound, stream);
  const DevicePickOutput<Id> out{.neighbors = neighbors_of(hop),
                                 .edge_ids = options_.edge_ids ? hop.edge_ids.data() : nullptr,
                                 .edge_bound = bound,
                                 .counts = hop.counts.data(),
                                 .num_edges = counts.edges + query.hop,
                                 .met = marks(query)};
  if (remote_.exchange == nullptr)
    chooser_->choose(query, nullptr, out, stream);
  else
    choose_everywhere(query, out, stream);
  return {neighbors_of(hop), bound, query.frontier.count, query.fanout, hop.counts.data()};
}

/// Chooses the local nodes' picks while those of the others travel.
template <typename Id>
void DeviceHops<Id>::choose_everywhere(const DeviceQuery& query, const DevicePickOutput<Id>& out,
                                       const cuda::Stream& stream) {
  forked_.record(stream);
  local_.wait(forked_);
  chooser_->choose(query, nullptr, out, local_);
  chosen_.record(local_);
  remote_.exchange->ask(query, *serving_chooser_, out.edge_bound, stream);
  stream.wait(chosen_);
  remote_.exchange->place_picks(out, stream);
}

/// Packed lists of all nodes of the block.
template <typename Id>
DeviceEdges<Id> DeviceHops<Id>::choose_packed(const DeviceQuery& query, BufferSet& set,
                                              const cuda::Stream& stream) {
  HopBuffers& hop = set.buffers.hops[query.hop];
  hop.stride = 0;
  const Count size = query.frontier.bound + 1;
  reserve(hop.indptr, kDevice, size, 0, "indptr of a block", stream);
  if (!options_.new_nodes_only || query.hop == 0) return choose_lists(query, hop.indptr.data(), set, stream);
  const DeviceQuery of_new = query_of_new_nodes(query, stream);
  reserve(new_offsets_, kDevice, of_new.frontier.bound + 1, 0, "lists of new nodes", stream);
  const DeviceEdges<Id> edges = choose_lists(of_new, new_offsets_.data(), set, stream);
  lay_out_lists<<<blocks_for(size), kThreads, 0, stream.get()>>>(
      new_offsets_.data(), of_new.frontier.count, query.frontier.count - 1, size, hop.indptr.data());
  cuda::check_launch("lay_out_lists");
  return edges;
}

/// The query's last nodes, which the hop before found.
template <typename Id>
DeviceQuery DeviceHops<Id>::query_of_new_nodes(const DeviceQuery& query, const cuda::Stream& stream) {
  reserve(new_nodes_, kDevice, new_bound_, 0, "new nodes of a hop", stream);
  reserve(num_new_, kDevice, num_hops(), 0, "numbers of new nodes", stream);
  Count* const count = num_new_.data() + query.hop;
  take_range<<<blocks_for(new_bound_), kThreads, 0, stream.get()>>>(
      query.frontier.nodes, query.frontier.count - 1, query.frontier.count, new_nodes_.data(), count);
  cuda::check_launch("take_range");
  DeviceQuery of_new = query;
  of_new.frontier = {new_nodes_.data(), count, new_bound_};
  return of_new;
}

/// Chooses the lists of the query's nodes and writes where each begins to `offsets` [bound + 1].
template <typename Id>
DeviceEdges<Id> DeviceHops<Id>::choose_lists(const DeviceQuery& query, Count* offsets, BufferSet& set,
                                             const cuda::Stream& stream) {
  HopBuffers& hop = set.buffers.hops[query.hop];
  const DeviceCounts counts = set.device_counts();
  const Count* num_edges = counts.edges + query.hop;
  const bool unbounded = is_unbounded(query.fanout);
  const Count room = bound_of_edges(query.frontier.bound, static_cast<int>(query.hop));
  reserve(plan_, kDevice, query.frontier.bound, 0, "ranges of neighbors", stream);
  if (remote_.exchange != nullptr) remote_.exchange->ask(query, *serving_chooser_, room, stream);
  chooser_->measure(query, plan_.data(), offsets, stream);
  if (remote_.exchange != nullptr) remote_.exchange->place_counts(offsets, stream);
  scan_.exclusive(offsets, query.frontier.bound + 1, stream);
  if (!unbounded && may_overflow(query.fanout)) {
    const Count size = query.frontier.bound + 1;
    clamp_offsets<<<blocks_for(size), kThreads, 0, stream.get()>>>(offsets, size, room, query.frontier.count,
                                                                   counts.wanted + query.hop,
                                                                   distributed_ ? counts.overflow : nullptr);
    cuda::check_launch("clamp_offsets");
  }
  read_edge_count<<<1, 1, 0, stream.get()>>>(offsets, query.frontier.count, counts.edges + query.hop);
  cuda::check_launch("read_edge_count");

  const Count bound = unbounded ? read_counts(set, stream).edges[query.hop] : room;
  if (unbounded && may_overflow(query.fanout)) grow_room(query.hop, bound);
  reserve_edges(hop, bound, stream);
  const DevicePickOutput<Id> out{.neighbors = neighbors_of(hop),
                                 .edge_ids = options_.edge_ids ? hop.edge_ids.data() : nullptr,
                                 .edge_bound = bound,
                                 .offsets = offsets,
                                 .met = marks(query)};
  chooser_->choose(query, plan_.data(), out, stream);
  if (remote_.exchange != nullptr) remote_.exchange->place_picks(out, stream);
  return {.neighbors = neighbors_of(hop), .bound = bound, .count = num_edges};
}

template <typename Id>
std::uint32_t* DeviceHops<Id>::marks(const DeviceQuery& query) const {
  return is_last(static_cast<int>(query.hop)) && !options_.compact_inputs ? nullptr : compactor_.met();
}

template <typename Id>
void DeviceHops<Id>::reserve_edges(HopBuffers& hop, Count num_edges, const cuda::Stream& stream) {
  reserve(hop.indices, kDevice, num_edges, 0, "edges of a block", stream);
  if (options_.edge_ids) reserve(hop.edge_ids, kDevice, num_edges, 0, "edge ids of a block", stream);
  if constexpr (!kInPlace) reserve(neighbors_, kDevice, num_edges, 0, "sampled neighbors", stream);
}

template <typename Id>
void DeviceHops<Id>::reserve_nodes(MiniBatchBuffers& buffers, Count size, Count keep,
                                   const cuda::Stream& stream) const {
  reserve(buffers.nodes, kDevice, size, keep, "nodes of a minibatch", stream);
  reserve(buffers.original_ids, kDevice, size, keep, "original ids of a minibatch", stream);
  if (options_.in_degrees) reserve(buffers.in_degrees, kDevice, size, keep, "degrees of a minibatch", stream);
}

template <typename Id>
void DeviceHops<Id>::reserve_transpose(HopBuffers& hop, Count num_src, Count num_edges,
                                       const cuda::Stream& stream) {
  reserve(hop.transposed_indptr, kDevice, num_src + 1, 0, "indptr of a transposed block", stream);
  reserve(hop.transposed_indices, kDevice, num_edges, 0, "edges of a transposed block", stream);
  transpose_.reserve_edges(num_edges, stream);
}

/// Where neighbors are written; local ids replace 32-bit global ids in place.
template <typename Id>
Id* DeviceHops<Id>::neighbors_of(HopBuffers& hop) {
  if constexpr (kInPlace)
    return hop.indices.data();
  else
    return neighbors_.data();
}

template <typename Id>
Count DeviceHops<Id>::bound_of_nodes(Count num_known, Count num_edges) const {
  return std::min(view_.num_nodes, num_known + num_edges);
}

/// Whether a hop may have more edges than there is room for; see DevicePickChooser::bounded_by_fanout.
template <typename Id>
bool DeviceHops<Id>::may_overflow(int fanout) const {
  return fanout > 0 && !chooser_->bounded_by_fanout();
}
/// Whether the host must know a hop's edges before there is room for them.
template <typename Id>
bool DeviceHops<Id>::is_unbounded(int fanout) const {
  return fanout < 0 || (remote_.staged && !chooser_->bounded_by_fanout());
}

/// Frontier nodes are distinct, so that together they have no more neighbors than the graph has edges,
/// unless a neighbor may be chosen several times.
template <typename Id>
Count DeviceHops<Id>::bound_of_edges(Count num_dst, int hop) const {
  const auto number = static_cast<std::size_t>(hop);
  Count bound = num_dst * options_.fanouts[number];
  if (may_overflow(options_.fanouts[number]))
    bound = std::max(bound + bound / 4 + kSpareEdges, room_[number]);
  const bool distinct = !options_.replace && !options_.device_chooser.of<Id>();
  return distinct && !distributed_ ? std::min(bound, view_.indices.size) : bound;
}

template <typename Id>
bool DeviceHops<Id>::grow_room(const BufferSet& set) {
  bool grown = false;
  const DeviceCounts counts = set.counts_on_host();
  for (std::size_t hop = 0; hop < room_.size(); ++hop) {
    if (counts.wanted[hop] <= counts.edges[hop]) continue;
    grow_room(hop, counts.wanted[hop]);
    grown = true;
  }
  return grown;
}

template <typename Id>
void DeviceHops<Id>::make_room(const std::vector<Count>& num_edges) {
  for (std::size_t hop = 0; hop < room_.size(); ++hop)
    if (may_overflow(options_.fanouts[hop])) grow_room(hop, num_edges[hop]);
}

template <typename Id>
void DeviceHops<Id>::grow_room(std::size_t hop, Count num_edges) {
  room_[hop] = std::max(room_[hop], num_edges + num_edges / 4);
}

/// Waits for the stream and returns the current counts.
template <typename Id>
DeviceCounts DeviceHops<Id>::read_counts(const BufferSet& set, const cuda::Stream& stream) const {
  copy_counts(set, stream);
  stream.synchronize();
  return set.counts_on_host();
}

template <typename Id>
PaddedShape DeviceHops<Id>::bounds() const {
  PaddedShape shape{.nodes = {std::min(options_.max_seeds, view_.num_nodes)}, .entries = {}};
  for (int hop = 0; hop < num_hops(); ++hop) {
    const int fanout = options_.fanouts[static_cast<std::size_t>(hop)];
    const Count known = shape.nodes.back();
    const bool only_new = options_.new_nodes_only && hop > 0;
    const Count asked = only_new ? std::min(view_.num_nodes, shape.entries.back()) : known;
    shape.entries.push_back(fills_strided(fanout) ? known * fanout : bound_of_edges(asked, hop));
    const bool compacted = !is_last(hop) || options_.compact_inputs;
    shape.nodes.push_back(compacted ? bound_of_nodes(known, shape.entries.back()) : known);
  }
  return shape;
}

template <typename Id>
bool DeviceHops<Id>::fills_strided(int fanout) const {
  return options_.strided && !options_.new_nodes_only && chooser_->fills_strided(fanout);
}

template <typename Id>
bool DeviceHops<Id>::bounded_by_fanouts() const {
  return chooser_->bounded_by_fanout();
}

template class DeviceHops<std::int32_t>;
template class DeviceHops<std::int64_t>;

}  // namespace strata::sampling
