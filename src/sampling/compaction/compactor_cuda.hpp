// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "launch_cuda.cuh"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/util/types.hpp"

namespace strata::sampling {

/// Neighbors in device memory, of which the host need not know how many there are: packed, or with a stride.
template <typename Id>
struct DeviceEdges {
  Id* neighbors = nullptr;
  Count bound = 0;                       ///< at least the number of entries
  const Count* count = nullptr;          ///< on the device: entries if packed, lists with a stride
  int stride = 0;                        ///< entries a list; 0: packed
  const std::int32_t* counts = nullptr;  ///< of each list, how many entries are used
};

/// Distinct nodes on the device.
struct SeedList {
  const NodeId* nodes = nullptr;
  Count size = 0;
};

/// What is found out about the seeds; zero before that.
struct SeedCheck {
  Count bad = 0;     ///< 1 + the place of one that is no node or repeats another
  Count blocks = 0;  ///< that have checked theirs
};

/// 32 nodes of which some got local ids at a hop: consecutive ones, from `first` on.
struct WordRank {
  std::uint32_t bits = 0;
  std::int32_t first = 0;
};

/// The bits of the nodes that were met at this hop and of those that have a local id.
struct NodeBits {
  std::uint32_t* met;
  std::uint32_t* known;
};

/// Compactor on a device; see there. All calls are asynchronous on `stream`, synchronise nothing and read
/// their sizes from device memory.
///
/// One bit a node tells who was met at a hop, another who has a local id. In large graphs, a warp a tile of
/// chunks of 1024 nodes counts what is new, another pass adds up what the tiles before have and emits the
/// ids; chunks without a new node are passed over. In small ones, one pass does both, in a chained scan with
/// decoupled look-back (Merrill and Garland, 2016).
template <typename Id>
class DeviceCompactor {
 public:
  struct Size {
    Count num_nodes = 0;
    int num_hops = 0;
    bool sorts = false;  ///< sort() will be called
  };
  DeviceCompactor(const Size& size, Device device);

  /// Forgets everything; the seeds, a list on the device, become the first of `nodes` and *num_nodes their
  /// number, or 0 if one of them is bad: no node, or a repeated one that extend() would have to number.
  struct Start {
    const SeedList* seeds = nullptr;
    Count bound = 0;  ///< at least their number
    NodeId* nodes = nullptr;
    Count* num_nodes = nullptr;
    SeedCheck* check = nullptr;
    bool extensible = false;  ///< extend() may follow
  };
  void start(const Start& start, const cuda::Stream& stream);
  /// Where a chooser marks what it chooses, for the next extend().
  std::uint32_t* met() const { return bits_.data(); }
  /// Marks what a chooser left unmarked.
  void mark_all(const DeviceEdges<Id>& edges, const cuda::Stream& stream);
  /// Appends the nodes that were met since, ascending, to nodes[*num_known...]; *num_nodes = how many have a
  /// local id then. Hops' numbers are below num_hops, each comes once after start().
  struct Extension {
    int number = 0;
    NodeId* nodes = nullptr;
    const Count* num_known = nullptr;  ///< null: none
    Count* num_nodes = nullptr;        ///< null: not asked for
    bool last = false;                 ///< neither another nor sort() follows before start()
  };
  void extend(const Extension& hop, const cuda::Stream& stream);
  /// All nodes that have a local id, ascending, and their local ids; forgets who has one. May run beside
  /// relabel().
  struct Sorting {
    const NodeId* nodes = nullptr;  ///< in order of their local ids
    const Count* num_nodes = nullptr;
    Count bound = 0;  ///< at least *num_nodes
    NodeId* sorted = nullptr;
    std::int32_t* local_ids = nullptr;
  };
  void sort(const Sorting& sorting, const cuda::Stream& stream);
  /// local_ids[e] = local id of edges.neighbors[e], which were met up to `hop`; may be the same memory. May
  /// run beside later calls of extend().
  void relabel(int hop, const DeviceEdges<Id>& edges, std::int32_t* local_ids,
               const cuda::Stream& stream) const;

 private:
  std::uint32_t* known() const { return bits_.data() + num_words_; }
  void number(const NodeBits& bits, const Extension& pass, const cuda::Stream& stream);

  Count num_nodes_;
  int num_hops_, num_passes_;  // a pass over the bits a hop, another to sort
  bool in_chain_;
  Count num_tiles_, chunks_per_tile_, num_words_, num_state_words_;
  bool met_is_clear_ = false;            // an extension clears what it read
  cuda::Array<std::uint32_t> bits_;      // [2, num_words], then the states of the tiles' chain at every pass
  cuda::Array<std::uint8_t> any_new_;    // [num_passes, chunks]
  cuda::Array<std::int32_t> tile_sums_;  // [num_tiles]
  cuda::Array<WordRank> ranks_;          // [num_passes, num_words]
  cuda::Array<std::int32_t> seed_ids_;   // [num_nodes], only those of seeds are set
};

}  // namespace strata::sampling
