// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <vector>

#include "choosers/pick_chooser_cuda.hpp"
#include "exchange/device_neighbor_exchange.hpp"
#include "exchange/kept_lists_cuda.hpp"
#include "exchange/strided_picks_cuda.hpp"
#include "strata/comm/device_exchange.hpp"
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
/// Over several relations, where the fanout does not bound a node's picks, those of a segment are packed
/// (PackedPicks), and their number is agreed beforehand, too.
///
/// Nodes whose lists ExchangeContext::halo keeps are sampled here and not asked for.
///
/// If a machine's nodes, or their picks, do not fit a segment, the rest is left out and *overflow becomes 1: the
/// batch is invalid and has to be sampled again by other means. agree() passes that on to all ranks.
template <typename Id>
class DirectExchange final : public DeviceNeighborExchange<Id> {
 public:
  /// REQUIRES: no fanout of -1.
  DirectExchange(const ExchangeContext& context, const SamplerOptions& options, Device device);

  /// The capacity of a segment by hop, the same on all ranks. 0 nodes: nothing is sent at that hop.
  struct Caps {
    std::vector<Count> nodes;
    std::vector<Count> picks;  ///< of choosers that the fanout does not bound
  };
  void set_caps(Caps caps);
  void grow_caps();  ///< after an overflow, by a tenth
  bool ready() const { return !caps_.nodes.empty(); }

  /// Begins a batch; `overflow` is a number on the device, which is 0. From here to agree() the work can be
  /// recorded, if a batch with the same caps went before.
  void begin(Count* overflow) { overflow_ = overflow; }
  void ask(const DeviceQuery& query, DevicePickChooser<Id>& chooser, Count edge_bound,
           const cuda::Stream& stream) override;
  void place_counts(Count* counts, const cuda::Stream& stream) override;
  void place_picks(const DevicePickOutput<Id>& out, const cuda::Stream& stream) override;
  /// Ends a batch: *overflow becomes 1 if it is on any rank.
  void agree(const cuda::Stream& stream) override;

  bool can_be_recorded() const { return wire_.can_be_recorded(); }
  void count_batch();  ///< counts a batch that was launched, recorded or not
  /// Adds what was exchanged to `report`. Waits for the device.
  void add_to(ExchangeReport& report) const;

 private:
  /// Arrays of picks, strided or packed.
  struct Picks {
    std::int32_t* counts;
    Id* neighbors;
    EdgeId* edge_ids;
  };
  void exchange(const DeviceQuery& query, DevicePickChooser<Id>& chooser, const cuda::Stream& stream);
  void exchange_strided(const DeviceQuery& query, DevicePickChooser<Id>& chooser, const cuda::Stream& stream);
  void exchange_packed(const DeviceQuery& query, DevicePickChooser<Id>& chooser, const cuda::Stream& stream);
  DeviceQuery query_of_others(const DeviceQuery& query, const cuda::Stream& stream);
  void send_answers(const Picks& served, const Picks& to, Count picks_per_segment, std::size_t hop,
                    const cuda::Stream& stream);

  comm::DeviceExchange& wire_;
  Device device_;
  SamplerOptions options_;
  const store::HaloLists* halo_;  // null: none
  Range own_nodes_;
  comm::IdSegments<Id> segments_;
  Caps caps_;
  Count* overflow_ = nullptr;

  std::unique_ptr<KeptLists<Id>> kept_;  // null: none, or no caps are set
  StridedChoice<Id> serving_;
  StridedRoom<Id> asked_room_, served_room_;
  PackedChoice<Id> packed_serving_;
  PackedRoom<Id> packed_asked_room_, packed_served_room_;
  PlacedPicks<Id> answered_, from_kept_;  // of this hop

  cuda::Array<NodeId> served_nodes_;  // this and all below: device memory
  cuda::Array<Count> served_count_;

  cuda::Array<Count> frontier_nodes_, remote_nodes_, kept_nodes_;  // of all batches, by hop
  std::vector<HopTraffic> batch_traffic_, traffic_;                // of one batch and of all, by hop
};

}  // namespace strata::sampling
