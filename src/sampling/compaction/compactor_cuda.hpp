// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "launch_cuda.cuh"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/util/types.hpp"

namespace strata::sampling {

/// Neighbors in device memory, packed or with a stride. The host need not know their number.
template <typename Id>
struct DeviceEdges {
  Id* neighbors = nullptr;
  Count bound = 0;               ///< at least the number of entries
  const Count* count = nullptr;  ///< on the device: number of entries if packed, of lists with a stride
  int stride = 0;                ///< entries per list; 0: packed
  const std::int32_t* counts = nullptr;  ///< entries that each list uses
};

/// Distinct nodes on the device.
struct SeedList {
  const NodeId* nodes = nullptr;
  Count size = 0;
};

/// The result of checking the seeds; zero before that.
struct SeedCheck {
  Count bad = 0;     ///< 1 + the index of a seed that is no node or repeats another; 0: none
  Count blocks = 0;  ///< blocks that have checked their seeds
};

/// 32 consecutive nodes. Those with a set bit got consecutive local ids at a hop, from `first` on.
struct WordRank {
  std::uint32_t bits = 0;
  std::int32_t first = 0;
};

/// The bits of the nodes that were met at this hop and of those that have a local id.
struct NodeBits {
  std::uint32_t* met;
  std::uint32_t* known;
};

/// Compactor on a GPU. All calls are asynchronous on `stream`, synchronise nothing and read their sizes from
/// device memory.
///
/// One bit per node says that it was met at a hop, another that it has a local id. In large graphs one warp
/// per tile (some chunks of 1024 nodes) counts the new nodes; a second pass adds up the counts of earlier
/// tiles and writes the ids, and skips chunks without new nodes. In small graphs one pass does both, in a
/// chained scan with decoupled look-back (Merrill and Garland, 2016).
template <typename Id>
class DeviceCompactor {
 public:
  struct Size {
    Count num_nodes = 0;
    int num_hops = 0;
    bool sorts = false;  ///< sort() will be called
  };
  DeviceCompactor(const Size& size, Device device);

  /// Forgets everything. The seeds, a list on the device, become the first of `nodes`. *num_nodes becomes
  /// their number, or 0 if one of them is bad: no node, or a repeated one that extend() would have to number.
  struct Start {
    const SeedList* seeds = nullptr;
    Count bound = 0;  ///< at least their number
    NodeId* nodes = nullptr;
    Count* num_nodes = nullptr;
    SeedCheck* check = nullptr;
    bool extensible = false;  ///< extend() may follow
  };
  void start(const Start& start, const cuda::Stream& stream);
  /// Where a chooser marks the nodes that it chooses, for the next extend().
  std::uint32_t* met() const { return bits_.data(); }
  /// Appends the nodes that were met since the last call, in ascending order, to nodes[*num_known..], and
  /// sets *num_nodes to how many nodes then have a local id. Each hop number below num_hops may be used once
  /// after start().
  struct Extension {
    int number = 0;
    NodeId* nodes = nullptr;
    const Count* num_known = nullptr;  ///< null: none
    Count* num_nodes = nullptr;        ///< null: not wanted
    bool last = false;                 ///< neither extend() nor sort() follows before the next start()
  };
  void extend(const Extension& hop, const cuda::Stream& stream);
  /// Writes all nodes that have a local id, in ascending order, and their local ids; then forgets them. May
  /// run at the same time as relabel().
  struct Sorting {
    const NodeId* nodes = nullptr;  ///< in order of their local ids
    const Count* num_nodes = nullptr;
    Count bound = 0;  ///< at least *num_nodes
    NodeId* sorted = nullptr;
    std::int32_t* local_ids = nullptr;
  };
  void sort(const Sorting& sorting, const cuda::Stream& stream);
  /// Sets local_ids[e] to the local id of edges.neighbors[e], which were met up to `hop`. Both may be the
  /// same memory. May run at the same time as later calls of extend().
  void relabel(int hop, const DeviceEdges<Id>& edges, std::int32_t* local_ids,
               const cuda::Stream& stream) const;

 private:
  std::uint32_t* known() const { return bits_.data() + num_words_; }
  void number(const NodeBits& bits, const Extension& pass, const cuda::Stream& stream);

  Count num_nodes_;
  int num_hops_, num_passes_;  // one pass over the bits per hop, and one to sort
  bool in_chain_;
  Count num_tiles_, chunks_per_tile_, num_words_, num_state_words_;
  bool met_is_clear_ = false;            // extend() clears the bits that it read
  cuda::Array<std::uint32_t> bits_;      // [2, num_words], then the states of the chained scan of every pass
  cuda::Array<std::uint8_t> any_new_;    // [num_passes, chunks]
  cuda::Array<std::int32_t> tile_sums_;  // [num_tiles]
  cuda::Array<WordRank> ranks_;          // [num_passes, num_words]
  cuda::Array<std::int32_t> seed_ids_;   // [num_nodes]; only those of seeds are set
};

}  // namespace strata::sampling
