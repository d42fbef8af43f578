// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <span>
#include <vector>

#include "cuda/device_array.cuh"
#include "multilevel/chunks.hpp"
#include "multilevel/level_graph.hpp"

namespace strata::partition {

/// Consecutive nodes with their lists on the device: the graph's entry e is ids[e - shift].
struct DevicePiece {
  Count first, last, shift;
};

/// Neighbor lists of some pieces of a graph, as kernels see them. A view.
struct ListsView {
  const Count* begin;
  const std::int32_t* ids;
  const std::uint32_t* weights;  ///< or null: 1 each
  const DevicePiece* pieces;
  int num_pieces;
  Count most_nodes;  ///< of a piece

  __device__ Count weight(Count place) const { return weights == nullptr ? 1 : weights[place]; }
};

/// The neighbor lists of a graph: in the GPU's memory as a whole, or where they do not fit, passing through a
/// buffer there. The graph must outlive it.
class DeviceLists {
 public:
  /// `limit_bytes` of the lists may lie on the GPU; 0: what is free there.
  DeviceLists(const LevelGraph& graph, std::int64_t limit_bytes, cudaStream_t stream);

  Count most_degree() const { return most_degree_; }
  /// Pieces that cover all nodes.
  std::span<const Chunks::Range> all() const { return all_; }

  /// Calls work(view) for one group of the ranges after the other, as many ranges at a time as fit. Every
  /// range is one of all() or has at most Chunks::size() nodes.
  template <typename Work>
  void each_group(std::span<const Chunks::Range> ranges, Work work) {
    while (!ranges.empty()) {
      std::size_t taken = 0;
      const ListsView view = load(ranges, taken);
      work(view);
      ranges = ranges.subspan(taken);
    }
  }

 private:
  ListsView load(std::span<const Chunks::Range> ranges, std::size_t& taken);
  void copy_lists(Count first, Count last, Count to);
  Count entries(const Chunks::Range& range) const {
    return graph_.begin[range.end] - graph_.begin[range.begin];
  }
  Count largest_chunk() const;

  const LevelGraph& graph_;
  cudaStream_t stream_;
  Count most_degree_ = 0;
  bool resident_ = false;
  std::vector<Chunks::Range> all_;
  DeviceArray<Count> begin_;
  DeviceArray<std::int32_t> ids_;
  DeviceArray<std::uint32_t> weights_;
  DeviceArray<DevicePiece> pieces_;
};

}  // namespace strata::partition
