// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "choosers/pick_chooser_cuda.hpp"
#include "launch_cuda.cuh"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::sampling {

/// Segments of equally many lists, with room for equally many picks.
struct PickSegments {
  Count count = 0;
  Count lists = 0, picks = 0;  ///< of each segment

  STRATA_HOST_DEVICE Count num_lists() const { return count * lists; }
  STRATA_HOST_DEVICE Count num_picks() const { return count * picks; }
};

/// Picks that are packed within segments, so that a segment is a message of one size although lists of several
/// relations have no common bound. A view of device memory.
///
/// Two segments of 2 lists and 4 picks:
///
///     counts {1, 2, 0, 3}   before {0, 1, 3, 3, 6}   neighbors {8, 3, 5, - | 71, 9, 4, -}
template <typename Id>
struct PackedPicks {
  PickSegments segments;
  std::int32_t* counts = nullptr;  ///< [lists]
  Count* before = nullptr;         ///< [lists + 1] picks of the lists before, of all segments
  Id* neighbors = nullptr;
  EdgeId* edge_ids = nullptr;  ///< null: not wanted
};

/// Memory for such picks; an owner.
template <typename Id>
class PackedRoom {
 public:
  /// REQUIRES: no recorded work uses the memory if it has to grow.
  PackedPicks<Id> reserve_for(const PickSegments& segments, bool edge_ids, const cuda::Stream& stream);

 private:
  cuda::Array<std::int32_t> counts_;
  cuda::Array<Count> before_;
  cuda::Array<Id> neighbors_;
  cuda::Array<EdgeId> edge_ids_;
};

/// Chooses packed picks. An owner of scratch memory.
template <typename Id>
class PackedChoice {
 public:
  explicit PackedChoice(Device device) : scan_(device) {}

  /// Writes the picks of the query's nodes, which are the lists of all segments, none for -1. If those of a
  /// segment exceed its room, the rest is left out and *overflow becomes 1.
  void run(const DeviceQuery& query, DevicePickChooser<Id>& chooser, const PackedPicks<Id>& picks,
           Count* overflow, const cuda::Stream& stream);
  /// Sets picks.before of picks whose counts were received.
  void sum(const PackedPicks<Id>& picks, const cuda::Stream& stream);

 private:
  DeviceScan scan_;
  cuda::Array<DeviceRange> plan_;
  cuda::Array<Count> offsets_;
};

}  // namespace strata::sampling
