#pragma once
#include <cstdint>

#include "launch_cuda.cuh"

namespace strata::sampling {

/// Edges in device memory, whose number the host need not know.
template <typename Id>
struct DeviceEdges {
  const Id* neighbors = nullptr;
  const Count* count = nullptr;  ///< on the device
  Count bound = 0;               ///< at least the count
};

/// Compactor on a device; see there. All calls are asynchronous on `stream` and synchronise nothing.
///
/// Bits are walked in tiles, one block a tile: count what is new, scan the counts, emit the ids.
template <typename Id>
class DeviceCompactor {
 public:
  DeviceCompactor(Count num_nodes, Device device);

  /// Forgets everything; nodes[i] gets the local id i for i < num_seeds.
  void start(const NodeId* nodes, Count num_seeds, const cuda::Stream& stream);
  /// Appends the new nodes to nodes[*num_known...], ascending; *num_nodes = how many have a local id then.
  void extend(const DeviceEdges<Id>& edges, NodeId* nodes, const Count* num_known, Count* num_nodes,
              const cuda::Stream& stream);
  /// local_ids[e] = local id of edges.neighbors[e]; may be the same memory.
  void relabel(const DeviceEdges<Id>& edges, std::int32_t* local_ids, const cuda::Stream& stream) const;

 private:
  Count num_tiles_;
  cuda::Array<std::uint32_t> met_, known_;  // one bit a node
  cuda::Array<Count> tile_offsets_;         // [num_tiles + 1]
  cuda::Array<std::int32_t> local_ids_;     // [num_nodes]
  DeviceScan scan_;
};

}  // namespace strata::sampling
