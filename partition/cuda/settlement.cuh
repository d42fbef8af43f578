// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

#include "cuda/device_lists.cuh"
#include "cuda/label_state.cuh"

namespace strata::partition {

/// Lets decisions of a wave take effect as if its nodes came one after another: a node moves if its cluster
/// still has room when its turn comes.
///
/// Clusters that have room for all arriving nodes need no order. At the others arrivals and departures are
/// sorted by their turns, and one thread per cluster replays them. Whether a node goes may depend on the
/// cluster that it goes to, so this repeats until nothing changes; the first of all turns is right at once,
/// and each one after the turns before it.
class Settlement {
 public:
  /// Settles waves of at most `most_nodes` nodes, in chunks of `chunk_size`.
  Settlement(Count num_nodes, int constraints, Count chunk_size, Count most_nodes, cudaStream_t stream);

  void settle(const LabelState& state, std::span<const Chunks::Range> wave);
  /// Nodes that have moved since the last call. Waits for them.
  Count take_moves();

 private:
  void replay_contested(const LabelState& state, Count turns);

  Count chunk_size_;
  cudaStream_t stream_;
  DeviceArray<DevicePiece> wave_;
  DeviceArray<Count> inflow_, moves_;   // inflow: [cluster][constraint], zero between waves
  DeviceArray<std::int32_t> accepted_;  // by turn
  DeviceArray<std::uint32_t> clusters_, events_, sorted_clusters_, sorted_events_;
  DeviceArray<int> flag_;
  DeviceArray<std::byte> sort_space_;
};

}  // namespace strata::partition
