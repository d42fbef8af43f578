// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "buffer_set_cuda.hpp"
#include "exchange/direct_exchange_cuda.hpp"
#include "exchange/staged_exchange_cuda.hpp"
#include "hops_cuda.hpp"
#include "mini_batch_buffers.hpp"
#include "sampler_cuda.hpp"
#include "strata/comm/reducer.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/sampling/recording_gate.hpp"
#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata::sampling {
namespace {

/// Enqueues batches, records them where it can, and repeats those that turned out too large.
template <typename Id>
class CudaSampler final : public MiniBatchSampler {
 public:
  CudaSampler(const store::GraphView& view, const SamplerOptions& options, const ExchangeContext& exchange,
              int num_buffers)
      : view_(view),
        options_(options),
        order_(exchange.order),
        turn_(exchange.turn()),
        staged_(exchange, options, view.device),
        hops_(view, options_, staged_.active()),
        scratch_free_(view.device) {
    check_whole_inputs(options, view, staged_.active());
    const bool bounded =
        hops_.bounded_by_fanouts() || (view.sublists.first != nullptr && options_.method != Method::labor);
    if (staged_.active() && exchange.on_devices != nullptr && has_fixed_fanouts() && bounded)
      direct_ = std::make_unique<DirectExchange<Id>>(exchange, options, view.device);
    for (int s = 0; s < num_buffers; ++s)
      buffers_.push_back(
          BufferSet::make(options.fanouts.size(), options.max_seeds + options.max_excluded, view.device));
  }

  void enqueue(std::span<const NodeId> seeds, const BatchKey& key, int index,
               const cuda::Stream& stream) override {
    const cuda::DeviceGuard guard(view_.device);
    const cuda::NvtxRange range("sample");
    BufferSet& set = buffers_[static_cast<std::size_t>(index)];
    if (hops_.follow(stream)) forget_graphs();
    begin(seeds, key, set, stream);
    staged_.exclude(set.excluded_of_halo);
    stream.wait(scratch_free_);
    if (!staged_.active()) {
      run(set, {}, stream);
    } else if (!direct_ || !direct_->ready()) {
      hops_.run(set, {&staged_, true}, stream);
    } else {
      run_directly(set, stream);
    }
    scratch_free_.record(stream);
    set.done.record(stream);
  }

  MiniBatch finish(int index) override {
    BufferSet& set = buffers_[static_cast<std::size_t>(index)];
    set.done.synchronize();
    const bool repeated = *set.counts_on_host().overflow > 0;  // on all ranks alike
    if (repeated) {
      direct_->grow_caps();
      hops_.grow_room(set);
      sample_again(set, {&staged_, true});
      ++repeated_batches_;
    }
    while (hops_.grow_room(set)) sample_again(set, {});
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
    batch.can_be_padded = !repeated;
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

  void exclude(const ExcludedEntries& entries) override {
    const auto size = std::ssize(entries.lists) + std::ssize(entries.halo);
    if (size > options_.max_excluded)
      throw Error(format_count(size) + " entries are to be excluded by a sampler made for at most " +
                  format_count(options_.max_excluded));
    excluded_ = entries;
  }

  ExchangeReport report() const override {
    ExchangeReport report = staged_.report();
    if (direct_) direct_->add_to(report);
    report.repeated_batches = repeated_batches_;
    return report;
  }

  PaddedShape bounds() const override {
    const bool known = has_fixed_fanouts() && (!staged_.active() || direct_);
    return known ? hops_.bounds() : PaddedShape();
  }

  void pad_nodes(const PaddedShape& shape) override {
    if (bounds().nodes.empty()) return;
    hops_.make_room(shape.entries);
    hops_.pad_nodes(std::min(shape.nodes.back(), bounds().nodes.back()));
    if (direct_) direct_->set_caps({.nodes = shape.requests, .picks = shape.answers});
    forget_graphs();  // requests have another size
  }

  void record_within(RecordingGate& gate) override { gate_ = &gate; }

 private:
  void forget_graphs() {
    for (BufferSet& set : buffers_) {
      set.done.synchronize();
      set.graph = {};
    }
  }
  bool has_fixed_fanouts() const {
    return std::ranges::all_of(options_.fanouts, [](int fanout) { return fanout >= 0; });
  }

  bool can_record(const cuda::Stream& stream) const {
    return has_fixed_fanouts() && cuda::Graph::can_record(stream) && (!direct_ || direct_->can_be_recorded());
  }

  /// Enqueues a batch, as a recording if there is one. The first one is recorded after it has been enqueued,
  /// because only then all memory is allocated.
  void run(BufferSet& set, const RemoteSource<Id>& remote, const cuda::Stream& stream) {
    if (set.graph) return set.graph.launch(stream);
    hops_.run(set, remote, stream);
    if (!can_record(stream)) return;
    const RecordingGate::Recording recording(gate_);
    if (recording) set.graph = cuda::Graph::record(stream, [&] { hops_.run(set, remote, stream); });
  }

  // The wire is not thread safe, and a recording calls it, too: both have to await their turn.
  void run_directly(BufferSet& set, const cuda::Stream& stream) {
    if (order_ != nullptr) order_->begin_exchange(turn_, stream);
    direct_->begin(set.device_counts().overflow);
    run(set, {direct_.get(), false}, stream);
    direct_->count_batch();
    if (order_ != nullptr) order_->end_exchange(turn_, stream);
  }

  void begin(std::span<const NodeId> seeds, const BatchKey& key, BufferSet& set, const cuda::Stream& stream) {
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
                    .seeds = {on_gpu ? seeds.data() : set.input.data() + kHeaderIds, set.num_seeds},
                    .excluded = {},
                    .excluded_of_halo = {}};
    Count size = kHeaderIds + (on_gpu ? 0 : set.num_seeds);
    const auto stage = [&](std::span<const Count> entries) {
      std::ranges::copy(entries, set.staged.data() + size);
      const DeviceExcluded staged{set.input.data() + size, std::ssize(entries)};
      size += staged.count;
      return staged;
    };
    set.header().excluded = stage(excluded_.lists);
    set.header().excluded_of_halo = stage(excluded_.halo);
    const auto halo_size = std::ssize(excluded_.halo);
    set.excluded_of_halo = {set.staged.data() + size - halo_size, at(halo_size)};
    excluded_ = {};
    cuda::copy_async(set.input.data(), set.staged.data(), at(size) * sizeof(NodeId), stream);
  }

  [[noreturn]] void refuse_seed_at(Count place, const BufferSet& set) const {
    NodeId node = 0;
    const cuda::Stream stream(view_.device);
    cuda::copy_async(&node, set.buffers.nodes.data() + place, sizeof(node), stream);
    stream.synchronize();
    refuse_seed(node, view_.num_nodes);
  }

  /// Samples a buffer set's batch again. Scratch memory may move, so all recorded graphs become invalid.
  void sample_again(BufferSet& set, const RemoteSource<Id>& remote) {
    const cuda::DeviceGuard guard(view_.device);
    scratch_free_.synchronize();
    for (BufferSet& other : buffers_) other.graph = {};
    const cuda::Stream stream(view_.device);
    staged_.exclude(set.excluded_of_halo);
    hops_.run(set, remote, stream);
    stream.synchronize();
  }

  const store::GraphView& view_;
  SamplerOptions options_;
  comm::LaunchOrder* order_;
  comm::LaunchOrder::Turn turn_;
  RecordingGate* gate_ = nullptr;
  StagedExchange<Id> staged_;
  std::unique_ptr<DirectExchange<Id>> direct_;  // null: requests pass through the host
  DeviceHops<Id> hops_;
  cuda::Event scratch_free_;  // all buffer sets share scratch memory, whatever stream they are sampled on
  std::vector<BufferSet> buffers_;
  ExcludedEntries excluded_;  // from the next batch
  Count repeated_batches_ = 0;
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
