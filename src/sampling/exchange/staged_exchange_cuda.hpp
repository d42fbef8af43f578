// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "choosers/pick_chooser_cuda.hpp"
#include "exchange/device_neighbor_exchange.hpp"
#include "exchange/neighbor_exchange.hpp"
#include "launch_cuda.cuh"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::sampling {

/// NeighborExchange for frontiers and picks in device memory. Messages are staged in host memory, and the
/// host waits for the stream at every step. It gives packed lists only.
template <typename Id>
class StagedExchange final : public DeviceNeighborExchange<Id> {
 public:
  StagedExchange(const ExchangeContext& context, const SamplerOptions& options, Device device);

  bool active() const { return exchange_.active(); }
  const ExchangeReport& report() const { return exchange_.report(); }
  void exclude(std::span<const Count> entries) { exchange_.exclude(entries); }  ///< as NeighborExchange

  /// REQUIRES: the query's count equals its bound.
  void ask(const DeviceQuery& query, DevicePickChooser<Id>& chooser, Count edge_bound,
           const cuda::Stream& stream) override;
  void place_counts(Count* counts, const cuda::Stream& stream) override;
  /// REQUIRES: out.offsets.
  void place_picks(const DevicePickOutput<Id>& out, const cuda::Stream& stream) override;

 private:
  PickAnswers<Id> serve(std::span<const NodeId> nodes, const DeviceQuery& query,
                        DevicePickChooser<Id>& chooser, const cuda::Stream& stream);
  void upload(const PickAnswers<Id>& answers, const cuda::Stream& stream);

  NeighborExchange<Id> exchange_;
  bool edge_ids_;

  cuda::Array<BatchKey> key_;        // pinned
  cuda::Array<NodeId> frontier_;     // pinned; requests of others are staged in incoming_
  cuda::Array<NodeId> incoming_;     // pinned
  cuda::Array<Count> host_offsets_;  // pinned
  cuda::Array<std::int32_t> host_counts_;
  cuda::Array<Id> host_neighbors_;     // pinned
  cuda::Array<EdgeId> host_edge_ids_;  // pinned

  DeviceScan scan_;
  cuda::Array<NodeId> served_nodes_;  // this and all below: device memory
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
