// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "compaction/compactor_cuda.hpp"
#include "mini_batch_buffers.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/sampling/neighbor_chooser.hpp"
#include "strata/util/random.hpp"

namespace strata::sampling {

/// The data of a batch, placed before its seeds, which excluded entries follow. One copy brings all to the
/// device, except seeds that are already there.
struct BatchHeader {
  BatchKey key;
  SeedList seeds;
  DeviceExcluded excluded, excluded_of_halo;
};
inline constexpr Count kHeaderIds = sizeof(BatchHeader) / sizeof(NodeId);
static_assert(sizeof(BatchHeader) % sizeof(NodeId) == 0);

/// Sizes of the minibatch that is being sampled, which stay on the device until the end.
struct DeviceCounts {
  Count* nodes = nullptr;  // [hops + 1]: nodes[h] is the frontier of hop h
  Count* edges = nullptr;  // [hops]
  // [hops]: edges that there would be with enough room, if fanouts do not bound them
  Count* wanted = nullptr;
  Count* overflow = nullptr;  // not 0: some rank's requests to another machine did not fit
  SeedCheck* seeds = nullptr;
};

/// One of the sampler's buffer sets.
struct BufferSet {
  MiniBatchBuffers buffers;
  cuda::Array<NodeId> staged, input;       // header and seeds: pinned, and on the device
  cuda::Array<Count> counts, host_counts;  // nodes, then edges; on the device, and pinned
  cuda::Event done;
  cuda::Graph graph;  // recording of one whole batch
  Count num_seeds = 0;
  std::span<const Count> excluded_of_halo;  // in `staged`

  /// For at most so many seeds and excluded entries together.
  static BufferSet make(std::size_t num_hops, Count max_ids, Device device) {
    BufferSet set;
    set.buffers.hops.resize(num_hops);
    constexpr auto kDevice = cuda::Memory::device, kPinned = cuda::Memory::pinned;
    constexpr Count kSeedCounts = sizeof(SeedCheck) / sizeof(Count);
    const Count num_counts = 3 * static_cast<Count>(num_hops) + 2 + kSeedCounts,
                num_ids = kHeaderIds + max_ids;
    set.counts = cuda::Array<Count>(kDevice, num_counts, "counts of a minibatch", device);
    set.host_counts = cuda::Array<Count>(kPinned, num_counts, "counts of a minibatch");
    set.staged = cuda::Array<NodeId>(kPinned, num_ids, "seeds");
    set.input = cuda::Array<NodeId>(kDevice, num_ids, "seeds", device);
    set.done = cuda::Event(device);
    return set;
  }

  BatchHeader& header() const { return *reinterpret_cast<BatchHeader*>(staged.data()); }
  const BatchHeader* device_header() const { return reinterpret_cast<const BatchHeader*>(input.data()); }
  DeviceCounts device_counts() const { return split(counts.data()); }
  DeviceCounts counts_on_host() const { return split(host_counts.data()); }

 private:
  DeviceCounts split(Count* values) const {
    const std::size_t num_hops = buffers.hops.size();
    return {values, values + num_hops + 1, values + 2 * num_hops + 1, values + 3 * num_hops + 1,
            reinterpret_cast<SeedCheck*>(values + 3 * num_hops + 2)};
  }
};

}  // namespace strata::sampling
