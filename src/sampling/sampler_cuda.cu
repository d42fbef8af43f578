#include <type_traits>

#include "compactor_cuda.hpp"
#include "exchange_cuda.hpp"
#include "sampler_cuda.hpp"
#include "slot_buffers.hpp"
#include "transpose_cuda.hpp"

namespace strata::sampling {
namespace {

constexpr auto kDevice = cuda::Memory::device;

/// Sizes of the minibatch that is being sampled; they stay on the device until the end.
struct DeviceCounts {
  Count* nodes = nullptr;  // [hops + 1]: nodes[h] is the frontier of hop h
  Count* edges = nullptr;  // [hops]
};

__global__ void set_count(Count* count, Count value) { *count = value; }

__global__ void read_edge_count(const Count* indptr, const Count* num_dst, Count* num_edges) {
  *num_edges = indptr[*num_dst];
}

template <typename Original>
struct NodeAttributes {
  const Original* all_original_ids;
  const std::int32_t* all_in_degrees;  // null: not asked for
  NodeId* original_ids;
  std::int32_t* in_degrees;
};

/// Original ids and degrees of the nodes from *first (null: from 0) to *last.
template <typename Original>
__global__ void describe_nodes(const NodeId* nodes, const Count* first, const Count* last,
                               NodeAttributes<Original> out) {
  const Count end = *last;
  for (Count i = (first == nullptr ? 0 : *first) + first_item<Count>(); i < end; i += item_stride<Count>()) {
    out.original_ids[i] = out.all_original_ids[nodes[i]];
    if (out.all_in_degrees != nullptr) out.in_degrees[i] = out.all_in_degrees[nodes[i]];
  }
}

template <typename Id>
class CudaSampler final : public MiniBatchSampler {
 public:
  CudaSampler(const store::GraphView& view, const SamplerOptions& options, const ExchangeContext& exchange,
              int num_slots)
      : view_(view),
        options_(options),
        chooser_(make_uniform_device_chooser<Id>(view)),
        compactor_(view.num_nodes, view.device),
        exchange_(exchange, options, view.device),
        scan_(view.device),
        transpose_(view.device),
        scratch_free_(view.device),
        slots_(static_cast<std::size_t>(num_slots)),
        num_counts_(2 * static_cast<Count>(options.fanouts.size()) + 1),
        counts_(kDevice, num_counts_, "counts of a minibatch", view.device),
        host_counts_(cuda::Memory::pinned, num_counts_, "counts of a minibatch", view.device) {
    for (SlotBuffers& slot : slots_) {
      slot.hops.resize(options.fanouts.size());
      reserve_bounds(slot);
    }
  }

  MiniBatch sample(std::span<const NodeId> seeds, const BatchKey& key, int slot,
                   const cuda::Stream& stream) override {
    const cuda::DeviceGuard guard(view_.device);
    const cuda::Range range("sample");
    stream.wait(scratch_free_);
    SlotBuffers& buffers = slots_[static_cast<std::size_t>(slot)];
    Count bound = start(seeds, buffers, stream);
    for (std::size_t hop = 0; hop < options_.fanouts.size(); ++hop) {
      if (hop > 0 && exchange_.active()) bound = read_counts(stream).nodes[hop];
      const DeviceQuery query{{buffers.nodes.data(), device_counts().nodes + hop, bound},
                              options_.fanouts[hop],
                              key,
                              static_cast<std::uint32_t>(hop)};
      bound = run_hop(query, buffers, stream);
    }
    MiniBatch batch = finish(buffers, static_cast<Count>(seeds.size()), stream);
    scratch_free_.record(stream);
    return batch;
  }

  ExchangeReport report() const override { return exchange_.report(); }

 private:
  DeviceCounts device_counts() const {
    return {counts_.data(), counts_.data() + static_cast<Count>(options_.fanouts.size()) + 1};
  }

  /// Waits for the stream; returns the counts as they are now, in host memory.
  DeviceCounts read_counts(const cuda::Stream& stream) const {
    cuda::copy_async(host_counts_.data(), counts_.data(),
                     static_cast<std::size_t>(num_counts_) * sizeof(Count), stream);
    stream.synchronize();
    return {host_counts_.data(), host_counts_.data() + static_cast<Count>(options_.fanouts.size()) + 1};
  }

  Count bound_of_nodes(Count num_known, Count num_edges) const {
    return std::min(view_.num_nodes, num_known + num_edges);
  }

  /// Frontier nodes are distinct, so that together they have no more neighbours than the graph has edges.
  Count bound_of_edges(Count num_dst, int fanout) const {
    const Count by_fanout = num_dst * fanout;
    return exchange_.active() ? by_fanout : std::min(by_fanout, view_.indices.size);
  }

  /// Room for the most that the fanouts allow, as far as they bound it: no later call allocates.
  void reserve_bounds(SlotBuffers& buffers) {
    const cuda::Stream none =
        cuda::Stream::borrow(view_.device, nullptr);  // nothing is kept, so nothing is copied
    reserve(seeds_, cuda::Memory::pinned, options_.max_seeds, 0, "seeds", none);
    Count bound = std::min(options_.max_seeds, view_.num_nodes);
    reserve_nodes(buffers, bound, 0, none);
    for (std::size_t hop = 0; hop < options_.fanouts.size() && options_.fanouts[hop] >= 0; ++hop) {
      const Count num_edges = bound_of_edges(bound, options_.fanouts[hop]);
      reserve_dst(buffers.hops[hop], bound, none);
      reserve_edges(buffers.hops[hop], num_edges, none);
      if (hop < options_.num_transposes()) transpose_.reserve_edges(num_edges, none);
      bound = bound_of_nodes(bound, num_edges);
    }
    reserve_nodes(buffers, bound, 0, none);
  }

  void reserve_dst(HopBuffers& hop, Count num_dst, const cuda::Stream& stream) {
    reserve(hop.indptr, kDevice, num_dst + 1, 0, "indptr of a block", stream);
    reserve(plan_, kDevice, num_dst, 0, "ranges of neighbours", stream);
  }

  void reserve_edges(HopBuffers& hop, Count num_edges, const cuda::Stream& stream) {
    reserve(hop.indices, kDevice, num_edges, 0, "edges of a block", stream);
    if (options_.edge_ids) reserve(hop.edge_ids, kDevice, num_edges, 0, "edge ids of a block", stream);
    if constexpr (!kInPlace) reserve(neighbors_, kDevice, num_edges, 0, "sampled neighbours", stream);
  }

  void reserve_nodes(SlotBuffers& buffers, Count size, Count keep, const cuda::Stream& stream) const {
    reserve(buffers.nodes, kDevice, size, keep, "nodes of a minibatch", stream);
    reserve(buffers.original_ids, kDevice, size, keep, "original ids of a minibatch", stream);
    if (options_.in_degrees)
      reserve(buffers.in_degrees, kDevice, size, keep, "degrees of a minibatch", stream);
  }

  Count start(std::span<const NodeId> seeds, SlotBuffers& buffers, const cuda::Stream& stream) {
    const auto num_seeds = static_cast<Count>(seeds.size());
    reserve(seeds_, cuda::Memory::pinned, num_seeds, 0, "seeds", stream);
    reserve_nodes(buffers, num_seeds, 0, stream);
    std::copy(seeds.begin(), seeds.end(), seeds_.data());
    if (num_seeds > 0) cuda::copy_async(buffers.nodes.data(), seeds_.data(), seeds.size_bytes(), stream);
    set_count<<<1, 1, 0, stream.get()>>>(device_counts().nodes, num_seeds);
    cuda::check_launch("set_count");
    compactor_.start(buffers.nodes.data(), num_seeds, stream);
    describe(buffers, nullptr, device_counts().nodes, num_seeds, stream);
    return num_seeds;
  }

  /// Returns a bound of the nodes that are known then.
  Count run_hop(const DeviceQuery& query, SlotBuffers& buffers, const cuda::Stream& stream) {
    HopBuffers& hop = buffers.hops[query.hop];
    const DeviceCounts counts = device_counts();
    reserve_dst(hop, query.frontier.bound, stream);
    if (exchange_.active()) exchange_.run(query, *chooser_, stream);
    chooser_->measure(query, plan_.data(), hop.indptr.data(), stream);
    if (exchange_.active()) exchange_.place_counts(hop.indptr.data(), stream);
    scan_.exclusive(hop.indptr.data(), query.frontier.bound + 1, stream);
    read_edge_count<<<1, 1, 0, stream.get()>>>(hop.indptr.data(), query.frontier.count,
                                               counts.edges + query.hop);
    cuda::check_launch("read_edge_count");

    const Count edge_bound = query.fanout < 0 ? read_counts(stream).edges[query.hop]
                                              : bound_of_edges(query.frontier.bound, query.fanout);
    reserve_edges(hop, edge_bound, stream);
    Id* neighbors = neighbors_of(hop);
    const DeviceSlotOutput<Id> out{hop.indptr.data(), edge_bound, neighbors,
                                   options_.edge_ids ? hop.edge_ids.data() : nullptr};
    chooser_->choose(query, plan_.data(), out, stream);
    if (exchange_.active()) exchange_.place_slots(out, stream);

    const Count node_bound = bound_of_nodes(query.frontier.bound, edge_bound);
    reserve_nodes(buffers, node_bound, query.frontier.bound, stream);
    const DeviceEdges<Id> edges{neighbors, counts.edges + query.hop, edge_bound};
    const Count *known = counts.nodes + query.hop, *total = counts.nodes + query.hop + 1;
    compactor_.extend(edges, buffers.nodes.data(), known, counts.nodes + query.hop + 1, stream);
    describe(buffers, known, total, node_bound, stream);
    compactor_.relabel(edges, hop.indices.data(), stream);
    return node_bound;
  }

  /// 32-bit global ids are replaced by local ids where they stand.
  Id* neighbors_of(HopBuffers& hop) {
    if constexpr (kInPlace)
      return hop.indices.data();
    else
      return neighbors_.data();
  }

  void describe(SlotBuffers& buffers, const Count* first, const Count* last, Count bound,
                const cuda::Stream& stream) const {
    view_.original_ids.visit([&](const auto* original_ids) {
      const NodeAttributes<std::remove_cvref_t<decltype(*original_ids)>> attributes{
          original_ids, options_.in_degrees ? view_.in_degrees : nullptr, buffers.original_ids.data(),
          buffers.in_degrees.data()};
      describe_nodes<<<blocks_for(bound), kThreads, 0, stream.get()>>>(buffers.nodes.data(), first, last,
                                                                       attributes);
      cuda::check_launch("describe_nodes");
    });
  }

  /// The only wait of a minibatch without exchange and full fanouts: libtorch wants the sizes on the host.
  MiniBatch finish(SlotBuffers& buffers, Count num_seeds, const cuda::Stream& stream) {
    const DeviceCounts counts = read_counts(stream);
    for (std::size_t hop = 0; hop < buffers.hops.size(); ++hop) {
      buffers.hops[hop].num_dst = counts.nodes[hop];
      buffers.hops[hop].num_src = counts.nodes[hop + 1];
      buffers.hops[hop].num_edges = counts.edges[hop];
    }
    check_local_ids_suffice(counts.nodes[buffers.hops.size()]);
    MiniBatch batch = blocks_of(buffers, options_, view_.device, num_seeds);
    for (std::size_t hop = 0; hop < options_.num_transposes(); ++hop) {
      add_transpose(batch.blocks[batch.blocks.size() - 1 - hop], buffers.hops[hop], stream);
    }
    return batch;
  }

  void add_transpose(Block& block, HopBuffers& hop, const cuda::Stream& stream) {
    reserve(hop.transposed_indptr, kDevice, block.num_src + 1, 0, "indptr of a transposed block", stream);
    reserve(hop.transposed_indices, kDevice, block.num_edges, 0, "edges of a transposed block", stream);
    transpose_.run(block, {hop.transposed_indptr.data(), hop.transposed_indices.data()}, stream);
    block.transposed_indptr = hop.transposed_indptr.data();
    block.transposed_indices = hop.transposed_indices.data();
  }

  static constexpr bool kInPlace = std::is_same_v<Id, std::int32_t>;

  const store::GraphView& view_;
  SamplerOptions options_;
  std::unique_ptr<DeviceSlotChooser<Id>> chooser_;
  DeviceCompactor<Id> compactor_;
  DeviceExchange<Id> exchange_;
  DeviceScan scan_;
  DeviceTranspose transpose_;
  cuda::Event scratch_free_;  // scratch memory is shared by all slots, whatever stream they are sampled on
  std::vector<SlotBuffers> slots_;
  Count num_counts_;
  cuda::Array<Count> counts_, host_counts_;
  cuda::Array<NodeId> seeds_;  // pinned
  cuda::Array<DeviceRange> plan_;
  cuda::Array<Id> neighbors_;
};

}  // namespace

std::unique_ptr<MiniBatchSampler> make_cuda_sampler(const store::GraphView& view,
                                                    const SamplerOptions& options,
                                                    const ExchangeContext& exchange, int num_slots) {
  const cuda::DeviceGuard guard(view.device);
  if (has_narrow_ids(view))
    return std::make_unique<CudaSampler<std::int32_t>>(view, options, exchange, num_slots);
  return std::make_unique<CudaSampler<std::int64_t>>(view, options, exchange, num_slots);
}

}  // namespace strata::sampling
