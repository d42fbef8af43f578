// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "choosers/pick_chooser_cuda.hpp"
#include "exchange/strided_picks_cuda.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/store/halo.hpp"
#include "strata/util/ranges.hpp"

namespace strata::sampling {

/// Neighbor lists of other machines' nodes in this GPU's memory, where kernels find and sample them without a
/// message. An owner.
///
/// Picks are the owners' bit for bit: keys come from original ids, which are kept beside the lists.
///
/// Lists of the nodes 70 and 64 are kept, by a machine that owns 0 to 9:
///
///     frontier {4, 64, 12, 70}   others() {4, -1, 12, -1}   kept {1, 0} at positions {1, 3}
template <typename Id>
class KeptLists {
 public:
  /// Copies the lists to the GPU; waits until it is done. `own` are the nodes of this machine, which no index
  /// need be asked for.
  KeptLists(const store::HaloLists& lists, const Range& own, const SamplerOptions& options, Device device);
  KeptLists(const KeptLists&) = delete;  // the chooser refers to the view
  KeptLists& operator=(const KeptLists&) = delete;

  /// Finds the kept nodes of a hop's frontier, and adds their number to *num_kept on the device.
  void find(const DeviceFrontier& frontier, Count* num_kept, const cuda::Stream& stream);
  const NodeId* others() const { return others_.data(); }  ///< the frontier with -1 for the kept nodes
  /// The batch that picks are chosen for.
  struct Batch {
    Count edge_bound = 0;       ///< of all picks of the hop, if they are packed
    Count* overflow = nullptr;  ///< see PackedChoice::run
  };
  /// Chooses the picks of the nodes that were found.
  void choose(const DeviceQuery& query, const Batch& batch, const cuda::Stream& stream);
  /// Where these picks belong; until the next find().
  PlacedPicks<Id> placed() const { return placed_; }

 private:
  store::GraphView copy_lists(const store::GraphView& host, const cuda::Stream& stream);
  store::SublistsView copy_sublists(const store::GraphView& host, const cuda::Stream& stream);

  Range own_;
  bool wants_edge_ids_;
  store::DeviceNodeIndex index_;
  cuda::Array<Count> indptr_;  // this and all below: device memory
  cuda::Array<std::byte> indices_, edge_ids_, original_ids_;
  cuda::Array<float> weights_;
  cuda::Array<Count> first_sublists_, sublist_begins_;
  cuda::Array<std::int32_t> sublist_nodes_;
  cuda::Array<RelationId> sublist_relations_;
  store::GraphView view_;  // of the lists, which are called by their positions
  std::unique_ptr<DevicePickChooser<Id>> chooser_;
  StridedChoice<Id> choice_;
  StridedRoom<Id> room_;
  PackedChoice<Id> packed_choice_;
  PackedRoom<Id> packed_room_;
  cuda::Array<NodeId> others_, kept_;
  cuda::Array<std::int32_t> positions_;  // of kept_ in the frontier; -1 behind them
  cuda::Array<Count> num_kept_;
  PlacedPicks<Id> placed_;
};

}  // namespace strata::sampling
