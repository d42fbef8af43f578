// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <vector>

#include "choosers/pick_chooser_cuda.hpp"
#include "exchange/device_neighbor_exchange.hpp"
#include "launch_cuda.cuh"
#include "strata/comm/device_exchange.hpp"
#include "strata/comm/id_segments.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::sampling {

/// Exchanges picks from GPU to GPU, so that the host never sees an id.
///
/// Requests are comm::IdSegments, whose sizes are agreed beforehand; an answer is a count and `fanout`
/// entries per id. With a fanout of 2, where node 70 has one neighbor:
///
///     asked {70, 64, -1}   answered counts {1, 2, 0}   neighbors {8, -, 3, 71, -, -}
///
/// If a machine's nodes do not fit a segment, the rest is left out and *overflow becomes 1: the batch is
/// worth nothing and has to be sampled again by other means. agree() tells all ranks.
template <typename Id>
class DirectExchange final : public DeviceNeighborExchange<Id> {
 public:
  /// REQUIRES: a chooser that the fanout bounds; no fanout of -1.
  DirectExchange(const ExchangeContext& context, const SamplerOptions& options, Device device);

  /// Nodes that a segment has room for, by hop; 0: nothing is sent at that hop. The same on all ranks.
  void set_caps(std::span<const Count> caps);
  void grow_caps();  ///< after an overflow, by a tenth
  bool ready() const { return !caps_.empty(); }

  /// Begins a batch; `overflow` is a number on the device, which is 0. From here to agree() the work can be
  /// recorded, if a batch with the same caps went before.
  void begin(Count* overflow) { overflow_ = overflow; }
  void ask(const DeviceQuery& query, DevicePickChooser<Id>& chooser, const cuda::Stream& stream) override;
  void place_counts(Count* counts, const cuda::Stream& stream) override;
  void place_picks(const DevicePickOutput<Id>& out, const cuda::Stream& stream) override;
  /// Ends a batch: *overflow becomes that of any rank.
  void agree(const cuda::Stream& stream) override;

  bool can_be_recorded() const { return wire_.can_be_recorded(); }
  void count_batch();  ///< counts a batch that was launched, recorded or not
  /// Adds what was exchanged to `report`. Waits for the device.
  void add_to(ExchangeReport& report) const;

 private:
  void reserve_answers(int fanout, const cuda::Stream& stream);
  void serve(const DeviceQuery& query, DevicePickChooser<Id>& chooser, const cuda::Stream& stream);
  void serve_packed(const DeviceQuery& asked, DevicePickChooser<Id>& chooser, const cuda::Stream& stream);
  void send_answers(int fanout, const cuda::Stream& stream);
  void describe_traffic(std::size_t hop, int fanout);

  comm::DeviceExchange& wire_;
  Device device_;
  bool edge_ids_;
  comm::IdSegments<Id> segments_;
  std::vector<Count> caps_;
  Count* overflow_ = nullptr;

  Count num_asked_ = 0;  // ids of this hop's segments, and entries per id
  int stride_ = 0;
  cuda::Array<std::int32_t> answer_counts_;  // this and all below: device memory
  cuda::Array<Id> answer_neighbors_;
  cuda::Array<EdgeId> answer_edge_ids_;

  DeviceScan scan_;
  cuda::Array<NodeId> served_nodes_;
  cuda::Array<Count> served_count_, served_total_, served_offsets_;
  cuda::Array<DeviceRange> served_plan_;
  cuda::Array<std::int32_t> served_counts_;
  cuda::Array<Id> served_neighbors_, packed_neighbors_;
  cuda::Array<EdgeId> served_edge_ids_, packed_edge_ids_;

  cuda::Array<Count> frontier_nodes_, remote_nodes_;  // of all batches, by hop
  std::vector<HopTraffic> batch_traffic_, traffic_;   // of one batch and of all, by hop
};

}  // namespace strata::sampling
