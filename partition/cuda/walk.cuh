// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>

#include "cuda/device_lists.cuh"
#include "cuda/sums.cuh"

namespace strata::partition {

/// A node and its list: neighbor i is view.ids[place + i].
struct NodeList {
  Count node, place, degree;
};

/// Nodes that a whole block shall work on.
struct HeavyNodes {
  NodeList* nodes;
  unsigned* count;
  DeviceSums tables;  ///< of block 0; those of the others follow
};

inline constexpr int kLightDegree = 128;  // most neighbors of a node that a warp takes
inline constexpr int kLightSlots = 256;   // and has room for as many distinct keys

/// One warp per 32 nodes: it asks for all of them whether they are wanted, and takes those one after another.
/// Reads a list once, four bytes per neighbor, and Work's data of the neighbors, a sector of 32 bytes
/// each.
template <typename Work>
__global__ void walk_light(Work work, ListsView view, HeavyNodes heavy, Count* total) {
  __shared__ std::int32_t keys[cuda::kWarpsPerBlock][kLightSlots], firsts[cuda::kWarpsPerBlock][kLightSlots];
  __shared__ unsigned long long sums[cuda::kWarpsPerBlock][kLightSlots];
  const int warp = static_cast<int>(threadIdx.x) / cuda::kWarp;
  DeviceSums table{keys[warp], firsts[warp], sums[warp], kLightSlots};
  const DevicePiece piece = view.pieces[blockIdx.y];
  Count sum = 0;
  const Count stride = static_cast<Count>(gridDim.x) * cuda::kThreads;
  for (Count base = piece.first + static_cast<Count>(blockIdx.x) * cuda::kThreads + warp * cuda::kWarp;
       base < piece.last; base += stride) {
    const Count mine = base + cuda::lane_index();
    bool wanted = mine < piece.last && work.wants(mine);
    if (wanted && view.begin[mine + 1] - view.begin[mine] > kLightDegree) {
      heavy.nodes[atomicAdd(heavy.count, 1u)] = {mine, view.begin[mine] - piece.shift,
                                                 view.begin[mine + 1] - view.begin[mine]};
      wanted = false;
    }
    unsigned left = __ballot_sync(cuda::kAllLanes, wanted);
    while (left != 0) {
      const Count v = base + __ffs(static_cast<int>(left)) - 1;
      left &= left - 1;
      const NodeList list{v, view.begin[v] - piece.shift, view.begin[v + 1] - view.begin[v]};
      sum += work.visit(WarpGroup{}, list, view, table);
    }
  }
  sum = add_up(sum);
  if (cuda::lane_index() == 0 && sum != 0) add_count(total, sum);
}

/// One block per node of many neighbors.
template <typename Work>
__global__ void walk_heavy(Work work, ListsView view, HeavyNodes heavy, Count* total) {
  const std::size_t offset = static_cast<std::size_t>(blockIdx.x) * heavy.tables.capacity;
  DeviceSums table{heavy.tables.keys + offset, heavy.tables.firsts + offset, heavy.tables.sums + offset,
                   heavy.tables.capacity};
  Count sum = 0;
  const unsigned count = *heavy.count;
  for (unsigned i = blockIdx.x; i < count; i += gridDim.x)
    sum += work.visit(BlockGroup{}, heavy.nodes[i], view, table);
  sum = add_up(sum);
  if (cuda::lane_index() == 0 && sum != 0) add_count(total, sum);
}

/// Runs Works over nodes. A Work has wants(node), and visit(group, list, view, table) is called for each
/// node that is wanted, by all threads of a group; what visit() returns is added up.
class Walker {
 public:
  /// Works ask tables for at most `most_keys` distinct keys, and for no more than a node has neighbors.
  Walker(const LevelGraph& graph, DeviceLists& lists, Count most_keys, cudaStream_t stream)
      : lists_{lists}, stream_{stream}, heavy_count_{1}, total_{1} {
    Count heavy = 0;
    for (Count v = 0; v < graph.num_nodes; ++v) heavy += graph.degree(v) > kLightDegree ? 1 : 0;
    heavy_nodes_ = DeviceArray<NodeList>{heavy};
    capacity_ = heavy == 0 ? 0 : DeviceSums::slots_for(std::min(lists.most_degree(), most_keys));
    constexpr Count kMostTableBytes = Count{1} << 30, kSlotBytes = 16, kMostBlocks = 264;  // two per SM
    heavy_blocks_ =
        heavy == 0 ? 0 : std::clamp<Count>(kMostTableBytes / (kSlotBytes * capacity_), 1, kMostBlocks);
    keys_ = DeviceArray<std::int32_t>{heavy_blocks_ * capacity_};
    firsts_ = DeviceArray<std::int32_t>{heavy_blocks_ * capacity_};
    sums_ = DeviceArray<unsigned long long>{heavy_blocks_ * capacity_};
    total_.fill(0, stream);
  }

  /// Runs a Work over the nodes of a view. Asynchronous.
  template <typename Work>
  void walk(const ListsView& view, const Work& work) {
    const HeavyNodes heavy{
        heavy_nodes_.data(),
        heavy_count_.data(),
        {keys_.data(), firsts_.data(), sums_.data(), static_cast<std::uint32_t>(capacity_)}};
    heavy_count_.fill(0, stream_);
    const dim3 grid{cuda::blocks_for(view.most_nodes), static_cast<unsigned>(view.num_pieces)};
    walk_light<<<grid, cuda::kThreads, 0, stream_>>>(work, view, heavy, total_.data());
    cuda::check_launch("walk_light");
    if (heavy_blocks_ == 0) return;
    walk_heavy<<<static_cast<unsigned>(heavy_blocks_), cuda::kThreads, 0, stream_>>>(work, view, heavy,
                                                                                     total_.data());
    cuda::check_launch("walk_heavy");
  }
  /// Runs a Work over all nodes.
  template <typename Work>
  void walk_all(const Work& work) {
    lists_.each_group(lists_.all(), [&](const ListsView& view) { walk(view, work); });
  }
  /// The sum of what Works returned since the last call. Waits for them.
  Count take_total() {
    const Count total = total_.read_one(stream_);
    total_.fill(0, stream_);
    return total;
  }

 private:
  DeviceLists& lists_;
  cudaStream_t stream_;
  Count capacity_ = 0, heavy_blocks_ = 0;
  DeviceArray<NodeList> heavy_nodes_;
  DeviceArray<unsigned> heavy_count_;
  DeviceArray<std::int32_t> keys_, firsts_;
  DeviceArray<unsigned long long> sums_;
  DeviceArray<Count> total_;
};

}  // namespace strata::partition
