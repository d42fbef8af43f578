// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <type_traits>
#include <vector>

#include "buffer_set_cuda.hpp"
#include "compaction/compactor_cuda.hpp"
#include "compaction/transpose_cuda.hpp"
#include "exchange/device_neighbor_exchange.hpp"
#include "launch_cuda.cuh"
#include "strata/cuda/stream.hpp"
#include "strata/sampling/sampler.hpp"

namespace strata::sampling {

/// The source of the picks of other machines' nodes.
template <typename Id>
struct RemoteSource {
  DeviceNeighborExchange<Id>* exchange = nullptr;  ///< null: there are none
  /// The exchange takes frontiers whose size the host knows, and gives packed lists.
  bool staged = false;
};

/// Samples a batch on a GPU, hop by hop: choose neighbors, find the new nodes among them, number them. All
/// batches share its scratch memory, so only one may run at a time.
template <typename Id>
class DeviceHops {
 public:
  /// `distributed`: a batch may have nodes of other machines. References must outlive the hops.
  DeviceHops(const store::GraphView& view, const SamplerOptions& options, bool distributed);

  /// Enqueues a batch whose header and seeds are on the device. Unless the fanouts or the exchange leave a
  /// size open, the host waits for nothing, and everything that differs between batches is read from
  /// set.input, so that the work can be recorded.
  void run(BufferSet& set, const RemoteSource<Id>& remote, const cuda::Stream& stream);

  bool bounded_by_fanouts() const;  ///< DevicePickChooser::bounded_by_fanout
  /// The most that a batch can need. REQUIRES: no fanout of -1.
  PaddedShape bounds() const;
  /// Makes nodes from `num_nodes` on -1; see MiniBatchSampler::pad_nodes.
  void pad_nodes(Count num_nodes) { padded_nodes_ = num_nodes; }
  /// Has room for so many edges of each hop, and for the nodes that they lead to; bounds() grows.
  void make_room(const std::vector<Count>& num_edges);
  /// Remembers the room that a batch lacked; returns whether any hop lacked room.
  bool grow_room(const BufferSet& set);
  /// Runs the work beside the hops on the SMs of `stream`; returns whether that is new.
  bool follow(const cuda::Stream& stream) {
    const bool changed = side_.follow(stream);
    return local_.follow(stream) || changed;
  }

 private:
  int num_hops() const { return static_cast<int>(options_.fanouts.size()); }
  bool is_last(int hop) const { return hop + 1 == num_hops(); }
  int num_compacted() const { return options_.compact_inputs ? num_hops() : num_hops() - 1; }
  bool fills_strided(int fanout) const;
  bool may_overflow(int fanout) const;
  bool is_unbounded(int fanout) const;
  Count bound_of_nodes(Count num_known, Count num_edges) const;
  Count bound_of_edges(Count num_dst, int hop) const;
  void grow_room(std::size_t hop, Count num_edges);

  Count run_hop(const DeviceQuery& query, BufferSet& set, const cuda::Stream& stream);
  DeviceEdges<Id> choose_strided(const DeviceQuery& query, HopBuffers& hop, const DeviceCounts& counts,
                                 const cuda::Stream& stream);
  void choose_everywhere(const DeviceQuery& query, const DevicePickOutput<Id>& out,
                         const cuda::Stream& stream);
  DeviceEdges<Id> choose_packed(const DeviceQuery& query, BufferSet& set, const cuda::Stream& stream);
  DeviceEdges<Id> choose_lists(const DeviceQuery& query, Count* offsets, BufferSet& set,
                               const cuda::Stream& stream);
  DeviceQuery query_of_new_nodes(const DeviceQuery& query, const cuda::Stream& stream);
  void relabel(const DeviceQuery& query, HopBuffers& hop, const DeviceEdges<Id>& edges, Count node_bound,
               const DeviceCounts& counts, const cuda::Stream& stream);
  void describe(const MiniBatchBuffers& buffers, const Count* first, const Count* last, Count bound,
                bool with_original_ids) const;
  void sort_inputs(BufferSet& set, Count bound, const cuda::Stream& stream);
  void pad_arrays(const BufferSet& set, const cuda::Stream& stream) const;
  std::uint32_t* marks(const DeviceQuery& query) const;

  DeviceCounts read_counts(const BufferSet& set, const cuda::Stream& stream) const;
  void fork(const cuda::Stream& stream);
  void join(const cuda::Stream& stream);
  void reserve_edges(HopBuffers& hop, Count num_edges, const cuda::Stream& stream);
  void reserve_nodes(MiniBatchBuffers& buffers, Count size, Count keep, const cuda::Stream& stream) const;
  void reserve_transpose(HopBuffers& hop, Count num_src, Count num_edges, const cuda::Stream& stream);
  Id* neighbors_of(HopBuffers& hop);

  static constexpr bool kInPlace = std::is_same_v<Id, std::int32_t>;

  const store::GraphView& view_;
  const SamplerOptions& options_;
  bool distributed_;
  RemoteSource<Id> remote_;  // of the batch that is being enqueued
  std::unique_ptr<DevicePickChooser<Id>> chooser_;
  std::unique_ptr<DevicePickChooser<Id>> serving_chooser_;  // for nodes that others ask about; null: nobody
  DeviceCompactor<Id> compactor_;
  DeviceScan scan_;
  DeviceTranspose transpose_;
  cuda::Stream side_;   // for work that the next hop need not wait for
  cuda::Stream local_;  // for local picks while others travel
  cuda::Event forked_, joined_, chosen_;
  Count padded_nodes_ = 0;
  std::vector<Count> room_;  // by hop: least room for edges
  cuda::Array<DeviceRange> plan_;
  // With SamplerOptions::new_nodes_only:
  Count new_bound_ = 0;  // of the nodes that the hop before found
  cuda::Array<NodeId> new_nodes_;
  cuda::Array<Count> num_new_;      // by hop
  cuda::Array<Count> new_offsets_;  // of their lists
  cuda::Array<Id> neighbors_;
};

}  // namespace strata::sampling
