// SPDX-License-Identifier: Apache-2.0
#include "sampler_cpu.hpp"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "choosers/pick_chooser.hpp"
#include "compaction/compactor_cpu.hpp"
#include "compaction/scan_cpu.hpp"
#include "compaction/transpose_cpu.hpp"
#include "exchange/neighbor_exchange.hpp"
#include "growing.hpp"
#include "mini_batch_buffers.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::sampling {
namespace {

constexpr Count kFrontierPerPiece = 8192;

/// Computes picks for other ranks, and owns the memory for it.
template <typename Id>
struct ServedPicks {
  PickPlan plan;
  std::vector<Count> offsets;
  std::vector<std::int32_t> counts;
  std::vector<Id> neighbors;
  std::vector<EdgeId> edge_ids;
};

template <typename Id>
class CpuSampler final : public MiniBatchSampler {
 public:
  CpuSampler(const store::GraphView& view, const SamplerOptions& options, const ExchangeContext& exchange,
             int num_buffers, ThreadPool& pool, cuda::Memory memory)
      : view_(view),
        options_(options),
        memory_(memory),
        pool_(pool),
        chooser_(make_pick_chooser<Id>(view, options, pool)),
        compactor_(view.num_nodes, pool),
        exchange_(exchange, options),
        buffers_(at(num_buffers)),
        num_seeds_(at(num_buffers)) {
    check_whole_inputs(options, view, exchange_.active());
    for (MiniBatchBuffers& set : buffers_) set.hops.resize(options.fanouts.size());
  }

  void enqueue(std::span<const NodeId> seeds, const BatchKey& key, int buffer, const cuda::Stream&) override {
    MiniBatchBuffers& buffers = buffers_[at(buffer)];
    num_seeds_[at(buffer)] = static_cast<Count>(seeds.size());
    Count num_nodes = start(seeds, buffers), first = 0;
    for (std::size_t hop = 0; hop < options_.fanouts.size(); ++hop) {
      const std::span frontier(buffers.nodes.data() + first, at(num_nodes - first));
      const PickQuery query{frontier, options_.fanouts[hop], key, static_cast<std::uint32_t>(hop),
                            excluded_.lists};
      if (options_.new_nodes_only) first = num_nodes;
      num_nodes = run_hop(query, num_nodes, buffers, buffers.hops[hop]);
    }
    if (options_.sorted_inputs) sort_inputs(buffers, num_nodes);
    exclude({});
  }

  void exclude(const ExcludedEntries& entries) override {
    excluded_ = entries;
    exchange_.exclude(entries.halo);
  }

  MiniBatch finish(int buffer) override {
    const auto index = at(buffer);
    return finish(buffers_[index], num_seeds_[index]);
  }

  ExchangeReport report() const override { return exchange_.report(); }

 private:
  bool is_compacted(std::size_t hop) const {
    return options_.compact_inputs || hop + 1 < options_.fanouts.size();
  }

  Count start(std::span<const NodeId> seeds, MiniBatchBuffers& buffers) {
    const auto num_seeds = static_cast<Count>(seeds.size());
    reserve_nodes(buffers, num_seeds, 0);
    std::copy(seeds.begin(), seeds.end(), buffers.nodes.data());
    compactor_.start(seeds);
    describe(buffers, 0, num_seeds);
    return num_seeds;
  }

  /// The query's nodes are the last of the `num_dst` that are known; the others get no edges.
  Count run_hop(const PickQuery& query, Count num_dst, MiniBatchBuffers& buffers, HopBuffers& hop) {
    reserve(hop.indptr, memory_, num_dst + 1, 0, "indptr of a block", {});
    const Count first = num_dst - static_cast<Count>(query.nodes.size());
    std::fill_n(hop.indptr.data(), first, 0);
    Count* const offsets = hop.indptr.data() + first;
    if (exchange_.active()) exchange_.start_ask(query);
    chooser_->measure(query, plan_, offsets);
    if (exchange_.active())
      place_counts(exchange_.start_answer(serve(exchange_.finish_ask(), query)), offsets);
    hop.num_edges = exclusive_scan(hop.indptr.data(), num_dst, pool_);
    reserve_edges(hop);

    Id* neighbors = neighbors_of(hop);
    const PickOutput<Id> out{offsets, neighbors, options_.edge_ids ? hop.edge_ids.data() : nullptr};
    chooser_->choose(query, plan_, out);
    if (exchange_.active()) place(exchange_.finish_answer(), out);

    hop.num_dst = hop.num_src = num_dst;
    if (!is_compacted(query.hop)) return num_dst;
    reserve_nodes(buffers, std::min(view_.num_nodes, num_dst + hop.num_edges), num_dst);
    hop.num_src = compactor_.extend(neighbors, hop.num_edges, buffers.nodes.data(), num_dst);
    describe(buffers, num_dst, hop.num_src);
    compactor_.relabel(neighbors, hop.num_edges, hop.indices.data());
    return hop.num_src;
  }

  void sort_inputs(MiniBatchBuffers& buffers, Count num_nodes) {
    reserve(buffers.sorted_nodes, memory_, num_nodes, 0, "sorted nodes of a minibatch", {});
    reserve(buffers.sorted_positions, memory_, num_nodes, 0, "sorted nodes of a minibatch", {});
    compactor_.sort(buffers.sorted_nodes.data(), buffers.sorted_positions.data());
  }

  /// Chooses for the other ranks.
  PickAnswers<Id> serve(std::span<const NodeId> nodes, const PickQuery& query) {
    const PickQuery asked{nodes, query.fanout, query.key, query.hop, query.excluded};
    const std::size_t size = asked.nodes.size();
    served_.offsets.resize(size + 1);
    chooser_->measure(asked, served_.plan, served_.offsets.data());
    served_.counts.assign(served_.offsets.begin(),
                          served_.offsets.begin() + static_cast<std::ptrdiff_t>(size));
    const Count num_edges = exclusive_scan(served_.offsets.data(), static_cast<Count>(size), pool_);
    served_.neighbors.resize(at(num_edges));
    served_.edge_ids.resize(options_.edge_ids ? at(num_edges) : 0);
    chooser_->choose(asked, served_.plan,
                     {served_.offsets.data(), served_.neighbors.data(),
                      options_.edge_ids ? served_.edge_ids.data() : nullptr});
    return {served_.counts, served_.neighbors, served_.edge_ids};
  }

  void place_counts(std::span<const std::int32_t> counts, Count* offsets) const {
    for (std::size_t i = 0; i < counts.size(); ++i) offsets[exchange_.remote_positions()[i]] = counts[i];
  }

  /// Writes the other ranks' picks to their places in the order of the frontier.
  void place(const PickAnswers<Id>& remote, const PickOutput<Id>& out) const {
    Count next = 0;
    for (std::size_t i = 0; i < remote.counts.size(); ++i) {
      const Count pick = out.offsets[exchange_.remote_positions()[i]];
      std::copy_n(remote.neighbors.data() + next, remote.counts[i], out.neighbors + pick);
      if (out.edge_ids != nullptr)
        std::copy_n(remote.edge_ids.data() + next, remote.counts[i], out.edge_ids + pick);
      next += remote.counts[i];
    }
  }

  void reserve_edges(HopBuffers& hop) {
    reserve(hop.indices, memory_, hop.num_edges, 0, "edges of a block", {});
    if (options_.edge_ids) reserve(hop.edge_ids, memory_, hop.num_edges, 0, "edge ids of a block", {});
    if constexpr (!kInPlace) reserve(neighbors_, memory_, hop.num_edges, 0, "sampled neighbors", {});
  }

  void reserve_nodes(MiniBatchBuffers& buffers, Count size, Count keep) const {
    reserve(buffers.nodes, memory_, size, keep, "nodes of a minibatch", {});
    reserve(buffers.original_ids, memory_, size, keep, "original ids of a minibatch", {});
    if (options_.in_degrees) reserve(buffers.in_degrees, memory_, size, keep, "degrees of a minibatch", {});
  }

  /// Where neighbors are written; local ids replace 32-bit global ids in place.
  Id* neighbors_of(HopBuffers& hop) {
    if constexpr (kInPlace)
      return hop.indices.data();
    else
      return neighbors_.data();
  }

  /// Sets the original ids and degrees of nodes [first, last).
  void describe(MiniBatchBuffers& buffers, Count first, Count last) const {
    view_.original_ids.visit([&](const auto* original_ids) {
      pool_.parallel_for(last - first, kFrontierPerPiece, [&](Count begin, Count end) {
        for (Count i = first + begin; i < first + end; ++i) {
          buffers.original_ids[i] = original_ids[buffers.nodes[i]];
          if (options_.in_degrees) buffers.in_degrees[i] = view_.in_degrees[buffers.nodes[i]];
        }
      });
    });
  }

  MiniBatch finish(MiniBatchBuffers& buffers, Count num_seeds) {
    MiniBatch batch = blocks_of(buffers, options_, view_.device, num_seeds);
    batch.blocks.front().global_indices = !options_.compact_inputs;
    auto num_transposes = static_cast<Count>(options_.num_transposes());
    if (!options_.compact_inputs)
      num_transposes = std::min(num_transposes, static_cast<Count>(options_.fanouts.size()) - 1);
    pool_.parallel_for(num_transposes, 1, [&](Count begin, Count end) {
      for (Count i = begin; i < end; ++i) {
        HopBuffers& hop = buffers.hops[at(i)];
        Block& block = batch.blocks[batch.blocks.size() - 1 - at(i)];
        reserve(hop.transposed_indptr, memory_, block.num_src + 1, 0, "indptr of a transposed block", {});
        reserve(hop.transposed_indices, memory_, block.num_edges, 0, "edges of a transposed block", {});
        transpose(block, {hop.transposed_indptr.data(), hop.transposed_indices.data()});
        block.transposed_indptr = hop.transposed_indptr.data();
        block.transposed_indices = hop.transposed_indices.data();
      }
    });
    return batch;
  }

  static constexpr bool kInPlace = std::is_same_v<Id, std::int32_t>;

  const store::GraphView& view_;
  SamplerOptions options_;
  cuda::Memory memory_;  // of results
  ThreadPool& pool_;
  std::unique_ptr<PickChooser<Id>> chooser_;
  Compactor<Id> compactor_;
  NeighborExchange<Id> exchange_;
  std::vector<MiniBatchBuffers> buffers_;
  std::vector<Count> num_seeds_;  // by buffer set
  ExcludedEntries excluded_;      // from the next batch
  PickPlan plan_;
  ServedPicks<Id> served_;
  cuda::Array<Id> neighbors_;
};

}  // namespace

std::unique_ptr<MiniBatchSampler> make_cpu_sampler(const store::GraphView& view,
                                                   const SamplerOptions& options,
                                                   const ExchangeContext& exchange, int num_buffers,
                                                   ThreadPool& pool, cuda::Memory memory) {
  if (has_narrow_ids(view))
    return std::make_unique<CpuSampler<std::int32_t>>(view, options, exchange, num_buffers, pool, memory);
  return std::make_unique<CpuSampler<std::int64_t>>(view, options, exchange, num_buffers, pool, memory);
}

}  // namespace strata::sampling
