// SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include "compaction/compactor_cuda.hpp"
#include "compaction/transpose_cuda.hpp"
#include "exchange/exchange_cuda.hpp"
#include "mini_batch_buffers.hpp"
#include "node_kernels_cuda.cuh"
#include "sampler_cuda.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/copy.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/graph.hpp"
#include "strata/cuda/nvtx_range.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/util/error.hpp"
#include "strata/util/format.hpp"

namespace strata::sampling {
namespace {

constexpr auto kDevice = cuda::Memory::device;

/// The data of a batch, placed before its seeds. One copy brings both to the device, unless the seeds are
/// already there.
struct BatchHeader {
  BatchKey key;
  SeedList seeds;
};
constexpr Count kHeaderIds = sizeof(BatchHeader) / sizeof(NodeId);
static_assert(sizeof(BatchHeader) % sizeof(NodeId) == 0);

/// Sizes of the minibatch that is being sampled, which stay on the device until the end.
struct DeviceCounts {
  Count* nodes = nullptr;  // [hops + 1]: nodes[h] is the frontier of hop h
  Count* edges = nullptr;  // [hops]
  // [hops]: edges that there would be with enough room, if fanouts do not bound them
  Count* wanted = nullptr;
  SeedCheck* seeds = nullptr;
};

__global__ void read_edge_count(const Count* indptr, const Count* num_dst, Count* num_edges) {
  *num_edges = indptr[*num_dst];
}

/// Cuts lists off at the end of their room, so that later work stays within it, and sets *wanted to the full
/// size.
__global__ void clamp_offsets(Count* offsets, Count size, Count room, const Count* num_dst, Count* wanted) {
  for (Count i = first_item<Count>(); i < size; i += item_stride<Count>()) {
    if (i == *num_dst) *wanted = offsets[i];
    offsets[i] = std::min(offsets[i], room);
  }
}

/// One of the sampler's buffer sets.
struct BufferSet {
  MiniBatchBuffers buffers;
  cuda::Array<NodeId> staged, input;       // header and seeds: pinned, and on the device
  cuda::Array<Count> counts, host_counts;  // nodes, then edges; on the device, and pinned
  cuda::Event done;
  cuda::Graph graph;  // recording of one whole batch
  bool warm = false;  // one batch was enqueued without a recording, so all memory is allocated
  Count num_seeds = 0;

  BatchHeader& header() const { return *reinterpret_cast<BatchHeader*>(staged.data()); }
  const BatchHeader* device_header() const { return reinterpret_cast<const BatchHeader*>(input.data()); }
  DeviceCounts device_counts() const { return split(counts.data()); }
  DeviceCounts counts_on_host() const { return split(host_counts.data()); }

 private:
  DeviceCounts split(Count* values) const {
    const std::size_t num_hops = buffers.hops.size();
    return {values, values + num_hops + 1, values + 2 * num_hops + 1,
            reinterpret_cast<SeedCheck*>(values + 3 * num_hops + 1)};
  }
};

template <typename Id>
class CudaSampler final : public MiniBatchSampler {
 public:
  CudaSampler(const store::GraphView& view, const SamplerOptions& options, const ExchangeContext& exchange,
              int num_buffers)
      : view_(view),
        options_(options),
        chooser_(make_device_chooser<Id>(view, options)),
        compactor_({view.num_nodes, num_hops(), options.sorted_inputs}, view.device),
        exchange_(exchange, options, view.device),
        scan_(view.device),
        transpose_(view.device),
        side_(view.device),
        forked_(view.device),
        joined_(view.device),
        scratch_free_(view.device),
        room_(options.fanouts.size(), 0) {
    check_whole_inputs(options, view, exchange_.active());
    for (int s = 0; s < num_buffers; ++s) buffers_.push_back(make_buffers());
  }

  void enqueue(std::span<const NodeId> seeds, const BatchKey& key, int index,
               const cuda::Stream& stream) override {
    const cuda::DeviceGuard guard(view_.device);
    const cuda::NvtxRange range("sample");
    BufferSet& set = buffers_[static_cast<std::size_t>(index)];
    if (side_.follow(stream)) forget_graphs();
    begin(seeds, key, set, stream);
    stream.wait(scratch_free_);
    if (!set.warm || !is_static()) {
      run(set, stream);
      set.warm = true;
    } else {
      if (!set.graph) set.graph = cuda::Graph::record(stream, [&] { run(set, stream); });
      set.graph.launch(stream);
    }
    scratch_free_.record(stream);
    set.done.record(stream);
  }

  MiniBatch finish(int index) override {
    BufferSet& set = buffers_[static_cast<std::size_t>(index)];
    set.done.synchronize();
    while (grow_room(set)) sample_again(set);
    const DeviceCounts counts = set.counts_on_host();
    if (counts.seeds->bad > 0) refuse_seed_at(counts.seeds->bad - 1, set);
    MiniBatchBuffers& buffers = set.buffers;
    for (std::size_t hop = 0; hop < buffers.hops.size(); ++hop) {
      buffers.hops[hop].num_dst = counts.nodes[hop];
      buffers.hops[hop].num_src = counts.nodes[hop + 1];
      buffers.hops[hop].num_edges = counts.edges[hop];
    }
    check_local_ids_suffice(counts.nodes[buffers.hops.size()]);
    MiniBatch batch = blocks_of(buffers, options_, view_.device, set.num_seeds);
    batch.device_counts = set.counts.data();
    batch.device_key = &set.device_header()->key;
    batch.blocks.front().global_indices = !options_.compact_inputs;
    for (std::size_t hop = 0; hop < options_.num_transposes(); ++hop) {
      Block& block = batch.blocks[batch.blocks.size() - 1 - hop];
      block.transposed_indptr = buffers.hops[hop].transposed_indptr.data();
      block.transposed_indices = buffers.hops[hop].transposed_indices.data();
    }
    return batch;
  }

  ExchangeReport report() const override { return exchange_.report(); }

  PaddedShape bounds() const override {
    if (!is_static()) return {};
    PaddedShape shape{.nodes = {std::min(options_.max_seeds, view_.num_nodes)}, .entries = {}};
    for (int hop = 0; hop < num_hops(); ++hop) {
      const int fanout = options_.fanouts[static_cast<std::size_t>(hop)];
      const Count known = shape.nodes.back();
      shape.entries.push_back(is_strided(fanout) ? known * fanout : bound_of_edges(known, hop));
      const bool compacted = !is_last(hop) || options_.compact_inputs;
      shape.nodes.push_back(compacted ? bound_of_nodes(known, shape.entries.back()) : known);
    }
    return shape;
  }

  void pad_nodes(const PaddedShape& shape) override {
    if (!is_static()) return;
    padded_nodes_ = std::min(shape.nodes.back(), bounds().nodes.back());
    forget_graphs();
  }

 private:
  void forget_graphs() {
    for (BufferSet& set : buffers_) {
      set.done.synchronize();
      set.graph = {};
    }
  }
  int num_hops() const { return static_cast<int>(options_.fanouts.size()); }
  bool is_last(int hop) const { return hop + 1 == num_hops(); }
  int num_compacted() const { return options_.compact_inputs ? num_hops() : num_hops() - 1; }
  bool is_strided(int fanout) const {
    return options_.strided && !exchange_.active() && chooser_->fills_strided(fanout);
  }
  /// Whether all bounds are known without looking at a batch.
  bool is_static() const {
    return !exchange_.active() &&
           std::ranges::all_of(options_.fanouts, [](int fanout) { return fanout >= 0; });
  }

  BufferSet make_buffers() const {
    BufferSet set;
    set.buffers.hops.resize(options_.fanouts.size());
    constexpr Count kSeedCounts = sizeof(SeedCheck) / sizeof(Count);
    const Count num_counts = 3 * Count{num_hops()} + 1 + kSeedCounts,
                num_ids = kHeaderIds + options_.max_seeds;
    set.counts = cuda::Array<Count>(kDevice, num_counts, "counts of a minibatch", view_.device);
    set.host_counts = cuda::Array<Count>(cuda::Memory::pinned, num_counts, "counts of a minibatch");
    set.staged = cuda::Array<NodeId>(cuda::Memory::pinned, num_ids, "seeds");
    set.input = cuda::Array<NodeId>(kDevice, num_ids, "seeds", view_.device);
    set.done = cuda::Event(view_.device);
    return set;
  }

  void begin(std::span<const NodeId> seeds, const BatchKey& key, BufferSet& set,
             const cuda::Stream& stream) const {
    set.num_seeds = static_cast<Count>(seeds.size());
    if (set.num_seeds > options_.max_seeds) {
      throw Error(format_count(set.num_seeds) + " seeds were given to a sampler made for at most " +
                  format_count(options_.max_seeds));
    }
    if (set.num_seeds > view_.num_nodes) {
      throw InputError(format_count(set.num_seeds) + " seeds of a graph of " + format_count(view_.num_nodes) +
                           " nodes are not distinct",
                       "Give each node once.");
    }
    const bool on_gpu = cuda::is_device_memory(seeds.data());
    if (!on_gpu) std::ranges::copy(seeds, set.staged.data() + kHeaderIds);
    set.header() = {.key = key,
                    .seeds = {on_gpu ? seeds.data() : set.input.data() + kHeaderIds, set.num_seeds}};
    const std::size_t bytes = sizeof(BatchHeader) + (on_gpu ? 0 : seeds.size_bytes());
    cuda::copy_async(set.input.data(), set.staged.data(), bytes, stream);
  }

  [[noreturn]] void refuse_seed_at(Count place, const BufferSet& set) const {
    NodeId node = 0;
    const cuda::Stream stream(view_.device);
    cuda::copy_async(&node, set.buffers.nodes.data() + place, sizeof(node), stream);
    stream.synchronize();
    refuse_seed(node, view_.num_nodes);
  }

  Count bound_of_nodes(Count num_known, Count num_edges) const {
    return std::min(view_.num_nodes, num_known + num_edges);
  }

  /// Whether a hop may have more edges than there is room for; see DevicePickChooser::bounded_by_fanout.
  bool may_overflow(int fanout) const {
    return fanout > 0 && !chooser_->bounded_by_fanout() && !exchange_.active();
  }
  /// Whether the host must know a hop's edges before there is room for them.
  bool is_unbounded(int fanout) const {
    return fanout < 0 || (!chooser_->bounded_by_fanout() && exchange_.active());
  }

  /// Frontier nodes are distinct, so that together they have no more neighbors than the graph has edges,
  /// unless a neighbor may be chosen several times.
  Count bound_of_edges(Count num_dst, int hop) const {
    const auto number = static_cast<std::size_t>(hop);
    Count bound = num_dst * options_.fanouts[number];
    if (may_overflow(options_.fanouts[number]))
      bound = std::max(bound + bound / 4 + kSpareEdges, room_[number]);
    const bool distinct = !options_.replace && !options_.device_chooser.of<Id>();
    return distinct && !exchange_.active() ? std::min(bound, view_.indices.size) : bound;
  }

  /// Remembers the room that a batch lacked; returns whether any hop lacked room.
  bool grow_room(const BufferSet& set) {
    bool grown = false;
    const DeviceCounts counts = set.counts_on_host();
    for (std::size_t hop = 0; hop < room_.size(); ++hop) {
      if (counts.wanted[hop] <= counts.edges[hop]) continue;
      room_[hop] = counts.wanted[hop] + counts.wanted[hop] / 4;
      grown = true;
    }
    return grown;
  }

  /// Samples a buffer set's batch again with more room. Scratch memory moves, so all recorded graphs become
  /// invalid.
  void sample_again(BufferSet& set) {
    const cuda::DeviceGuard guard(view_.device);
    scratch_free_.synchronize();
    for (BufferSet& other : buffers_) {
      other.graph = {};
      other.warm = false;
    }
    const cuda::Stream stream(view_.device);
    run(set, stream);
    stream.synchronize();
  }

  /// Waits for the stream and returns the current counts.
  DeviceCounts read_counts(const BufferSet& set, const cuda::Stream& stream) const {
    copy_counts(set, stream);
    stream.synchronize();
    return set.counts_on_host();
  }

  static void copy_counts(const BufferSet& set, const cuda::Stream& stream) {
    cuda::copy_async(set.host_counts.data(), set.counts.data(),
                     static_cast<std::size_t>(set.counts.size()) * sizeof(Count), stream);
  }

  /// Enqueues a batch whose header and seeds are on the device. With static bounds, everything that differs
  /// between batches is read from set.input.
  void run(BufferSet& set, const cuda::Stream& stream) {
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
    for (int hop = 0; hop < num_hops(); ++hop) {
      if (exchange_.active()) bound = read_counts(set, stream).nodes[hop];
      const DeviceQuery query{{set.buffers.nodes.data(), counts.nodes + hop, bound},
                              options_.fanouts[static_cast<std::size_t>(hop)],
                              &set.device_header()->key,
                              static_cast<std::uint32_t>(hop)};
      bound = run_hop(query, set, stream);
    }
    if (options_.sorted_inputs) sort_inputs(set, bound, stream);
    join(stream);
    if (padded_nodes_ > 0) pad_arrays(set, stream);
    copy_counts(set, stream);
  }

  void sort_inputs(BufferSet& set, Count bound, const cuda::Stream& stream) {
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

  void pad_arrays(const BufferSet& set, const cuda::Stream& stream) const {
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
  Count run_hop(const DeviceQuery& query, BufferSet& set, const cuda::Stream& stream) {
    MiniBatchBuffers& buffers = set.buffers;
    HopBuffers& hop = buffers.hops[query.hop];
    const DeviceCounts counts = set.device_counts();
    const DeviceEdges<Id> edges = is_strided(query.fanout) ? choose_strided(query, hop, counts, stream)
                                                           : choose_packed(query, set, stream);
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
  void fork(const cuda::Stream& stream) {
    forked_.record(stream);
    side_.wait(forked_);
  }
  void join(const cuda::Stream& stream) {
    joined_.record(side_);
    stream.wait(joined_);
  }

  /// The wide ids of all hops share one array of neighbors, so the next hop must wait for this one.
  void relabel(const DeviceQuery& query, HopBuffers& hop, const DeviceEdges<Id>& edges, Count node_bound,
               const DeviceCounts& counts, const cuda::Stream& stream) {
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

  void describe(const MiniBatchBuffers& buffers, const Count* first, const Count* last, Count bound,
                bool with_original_ids) const {
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

  DeviceEdges<Id> choose_strided(const DeviceQuery& query, HopBuffers& hop, const DeviceCounts& counts,
                                 const cuda::Stream& stream) {
    const Count bound = query.frontier.bound * query.fanout;
    hop.stride = query.fanout;
    reserve(hop.counts, kDevice, query.frontier.bound, 0, "counts of a block", stream);
    reserve_edges(hop, bound, stream);
    chooser_->choose(query, nullptr,
                     {.neighbors = neighbors_of(hop),
                      .edge_ids = options_.edge_ids ? hop.edge_ids.data() : nullptr,
                      .edge_bound = bound,
                      .counts = hop.counts.data(),
                      .num_edges = counts.edges + query.hop,
                      .met = marks(query)},
                     stream);
    return {neighbors_of(hop), bound, query.frontier.count, query.fanout, hop.counts.data()};
  }

  DeviceEdges<Id> choose_packed(const DeviceQuery& query, BufferSet& set, const cuda::Stream& stream) {
    HopBuffers& hop = set.buffers.hops[query.hop];
    const Count* num_edges = set.device_counts().edges + query.hop;
    reserve(hop.indptr, kDevice, query.frontier.bound + 1, 0, "indptr of a block", stream);
    reserve(plan_, kDevice, query.frontier.bound, 0, "ranges of neighbors", stream);
    if (exchange_.active()) exchange_.run(query, *chooser_, stream);
    chooser_->measure(query, plan_.data(), hop.indptr.data(), stream);
    if (exchange_.active()) exchange_.place_counts(hop.indptr.data(), stream);
    scan_.exclusive(hop.indptr.data(), query.frontier.bound + 1, stream);
    if (may_overflow(query.fanout)) {
      const Count size = query.frontier.bound + 1;
      clamp_offsets<<<blocks_for(size), kThreads, 0, stream.get()>>>(
          hop.indptr.data(), size, bound_of_edges(query.frontier.bound, static_cast<int>(query.hop)),
          query.frontier.count, set.device_counts().wanted + query.hop);
      cuda::check_launch("clamp_offsets");
    }
    read_edge_count<<<1, 1, 0, stream.get()>>>(hop.indptr.data(), query.frontier.count,
                                               set.device_counts().edges + query.hop);
    cuda::check_launch("read_edge_count");

    const Count bound = is_unbounded(query.fanout)
                            ? read_counts(set, stream).edges[query.hop]
                            : bound_of_edges(query.frontier.bound, static_cast<int>(query.hop));
    reserve_edges(hop, bound, stream);
    const DevicePickOutput<Id> out{.neighbors = neighbors_of(hop),
                                   .edge_ids = options_.edge_ids ? hop.edge_ids.data() : nullptr,
                                   .edge_bound = bound,
                                   .offsets = hop.indptr.data(),
                                   .met = exchange_.active() ? nullptr : marks(query)};
    chooser_->choose(query, plan_.data(), out, stream);
    const DeviceEdges<Id> edges{.neighbors = neighbors_of(hop), .bound = bound, .count = num_edges};
    if (exchange_.active()) {
      exchange_.place_picks(out, stream);
      compactor_.mark_all(edges, stream);
    }
    return edges;
  }

  std::uint32_t* marks(const DeviceQuery& query) const {
    return is_last(static_cast<int>(query.hop)) && !options_.compact_inputs ? nullptr : compactor_.met();
  }

  void reserve_edges(HopBuffers& hop, Count num_edges, const cuda::Stream& stream) {
    reserve(hop.indices, kDevice, num_edges, 0, "edges of a block", stream);
    if (options_.edge_ids) reserve(hop.edge_ids, kDevice, num_edges, 0, "edge ids of a block", stream);
    if constexpr (!kInPlace) reserve(neighbors_, kDevice, num_edges, 0, "sampled neighbors", stream);
  }

  void reserve_nodes(MiniBatchBuffers& buffers, Count size, Count keep, const cuda::Stream& stream) const {
    reserve(buffers.nodes, kDevice, size, keep, "nodes of a minibatch", stream);
    reserve(buffers.original_ids, kDevice, size, keep, "original ids of a minibatch", stream);
    if (options_.in_degrees)
      reserve(buffers.in_degrees, kDevice, size, keep, "degrees of a minibatch", stream);
  }

  void reserve_transpose(HopBuffers& hop, Count num_src, Count num_edges, const cuda::Stream& stream) {
    reserve(hop.transposed_indptr, kDevice, num_src + 1, 0, "indptr of a transposed block", stream);
    reserve(hop.transposed_indices, kDevice, num_edges, 0, "edges of a transposed block", stream);
    transpose_.reserve_edges(num_edges, stream);
  }

  /// Where neighbors are written; local ids replace 32-bit global ids in place.
  Id* neighbors_of(HopBuffers& hop) {
    if constexpr (kInPlace)
      return hop.indices.data();
    else
      return neighbors_.data();
  }

  static constexpr bool kInPlace = std::is_same_v<Id, std::int32_t>;
  static constexpr Count kSpareEdges = 4096;

  const store::GraphView& view_;
  SamplerOptions options_;
  std::unique_ptr<DevicePickChooser<Id>> chooser_;
  DeviceCompactor<Id> compactor_;
  DeviceNeighborExchange<Id> exchange_;
  DeviceScan scan_;
  DeviceTranspose transpose_;
  cuda::Stream side_;  // for work that the next hop need not wait for
  cuda::Event forked_, joined_;
  cuda::Event scratch_free_;  // all buffer sets share scratch memory, whatever stream they are sampled on
  std::vector<BufferSet> buffers_;
  Count padded_nodes_ = 0;
  std::vector<Count> room_;  // by hop: least room for edges
  cuda::Array<DeviceRange> plan_;
  cuda::Array<Id> neighbors_;
};

}  // namespace

std::unique_ptr<MiniBatchSampler> make_cuda_sampler(const store::GraphView& view,
                                                    const SamplerOptions& options,
                                                    const ExchangeContext& exchange, int num_buffers) {
  const cuda::DeviceGuard guard(view.device);
  if (has_narrow_ids(view))
    return std::make_unique<CudaSampler<std::int32_t>>(view, options, exchange, num_buffers);
  return std::make_unique<CudaSampler<std::int64_t>>(view, options, exchange, num_buffers);
}

}  // namespace strata::sampling
