// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "choosers/pick_chooser_cuda.hpp"
#include "exchange/packed_picks_cuda.hpp"
#include "launch_cuda.cuh"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::sampling {

/// Picks with `stride` entries per list. A view of device memory.
template <typename Id>
struct StridedPicks {
  std::int32_t* counts = nullptr;
  Id* neighbors = nullptr;
  EdgeId* edge_ids = nullptr;  ///< null: not wanted
  int stride = 0;
};

/// Memory for such picks; an owner.
template <typename Id>
class StridedRoom {
 public:
  /// Makes room for `lists` lists. REQUIRES: no recorded work uses the memory if it has to grow.
  StridedPicks<Id> reserve_for(Count lists, int stride, bool edge_ids, const cuda::Stream& stream);

 private:
  cuda::Array<std::int32_t> counts_;
  cuda::Array<Id> neighbors_;
  cuda::Array<EdgeId> edge_ids_;
};

/// Chooses picks with a fixed stride, whichever kind of lists a chooser fills. An owner of scratch memory.
template <typename Id>
class StridedChoice {
 public:
  explicit StridedChoice(Device device);

  /// Writes the picks of the query's nodes, none for -1, and 0 to the counts up to the query's
  /// bound. REQUIRES: picks.stride == query.fanout > 0.
  void run(const DeviceQuery& query, DevicePickChooser<Id>& chooser, const StridedPicks<Id>& picks,
           const cuda::Stream& stream);

 private:
  void run_packed(const DeviceQuery& query, DevicePickChooser<Id>& chooser, const StridedPicks<Id>& picks,
                  const cuda::Stream& stream);

  DeviceScan scan_;
  cuda::Array<Count> total_, offsets_;
  cuda::Array<DeviceRange> plan_;
  cuda::Array<Id> neighbors_;
  cuda::Array<EdgeId> edge_ids_;
};

/// Picks, and the places of their nodes in a frontier.
template <typename Id>
struct PlacedPicks {
  const std::int32_t* positions = nullptr;  ///< [num_lists] -1: not a node
  Count num_lists = 0;
  StridedPicks<Id> strided = {};  ///< with a stride of 0, they are packed
  PackedPicks<Id> packed = {};

  bool any() const { return num_lists > 0; }
  bool is_packed() const { return strided.stride == 0; }
};

/// See DeviceNeighborExchange::place_counts() and place_picks().
template <typename Id>
void place_counts(const PlacedPicks<Id>& placed, Count* counts, const cuda::Stream& stream);
template <typename Id>
void place_picks(const PlacedPicks<Id>& placed, const DevicePickOutput<Id>& out, const cuda::Stream& stream);

}  // namespace strata::sampling
