#pragma once
#include "launch_cuda.cuh"
#include "neighbor_exchange.hpp"
#include "slot_chooser_cuda.hpp"

namespace strata::sampling {

/// NeighborExchange for frontiers and slots in device memory; what travels is staged in host memory, and the
/// host waits for the stream at every step.
///
/// A hop is run(), then place_counts() before the counts are scanned, and place_slots() after the own slots
/// were chosen.
template <typename Id>
class DeviceExchange {
 public:
  DeviceExchange(const ExchangeContext& context, const SamplerOptions& options, Device device);

  bool active() const { return exchange_.active(); }
  const ExchangeReport& report() const { return exchange_.report(); }

  /// Asks other machines for the slots of the query's remote nodes, and answers what they ask. Collective.
  /// REQUIRES: the query's count equals its bound.
  void run(const DeviceQuery& query, DeviceSlotChooser<Id>& chooser, const cuda::Stream& stream);

  /// counts[i] = slots of node i, for the remote nodes.
  void place_counts(Count* counts, const cuda::Stream& stream);
  /// Writes the remote nodes' slots to where out.offsets want them.
  void place_slots(const DeviceSlotOutput<Id>& out, const cuda::Stream& stream);

 private:
  SlotAnswers<Id> serve(std::span<const NodeId> nodes, const DeviceQuery& query,
                        DeviceSlotChooser<Id>& chooser, const cuda::Stream& stream);
  void upload(const SlotAnswers<Id>& answers, const cuda::Stream& stream);

  NeighborExchange<Id> exchange_;
  bool edge_ids_;

  cuda::Array<BatchKey> key_;        // pinned
  cuda::Array<NodeId> frontier_;     // pinned; what others ask is staged in incoming_
  cuda::Array<NodeId> incoming_;     // pinned
  cuda::Array<Count> host_offsets_;  // pinned
  cuda::Array<std::int32_t> host_counts_;
  cuda::Array<Id> host_neighbors_;     // pinned
  cuda::Array<EdgeId> host_edge_ids_;  // pinned

  DeviceScan scan_;
  cuda::Array<NodeId> served_nodes_;  // the rest: device
  cuda::Array<Count> served_count_, served_offsets_;
  cuda::Array<DeviceRange> served_plan_;
  cuda::Array<Id> served_neighbors_;
  cuda::Array<EdgeId> served_edge_ids_;

  Count num_remote_ = 0, num_remote_edges_ = 0;
  cuda::Array<Count> remote_positions_, remote_offsets_;
  cuda::Array<Id> remote_neighbors_;
  cuda::Array<EdgeId> remote_edge_ids_;
};

}  // namespace strata::sampling
