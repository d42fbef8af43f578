// SPDX-License-Identifier: Apache-2.0
#include "collectives/pack_ids.hpp"
#include "strata/cuda/kernels.cuh"

namespace strata::comm {
namespace {

struct MachineMap {
  const Count* offsets;  // [machines + 1]
  Count num_machines;
  int here;

  /// The segment for a node; -1 if it is of this machine, or none.
  __device__ int segment_of(NodeId node) const {
    if (node < 0) return -1;
    const auto machine = static_cast<int>(cuda::list_of(offsets, num_machines, node));
    return machine == here ? -1 : machine - (machine > here ? 1 : 0);
  }
};

// The lanes of a warp whose ids go to one segment take their places there together. out.last begins with -1.
template <typename Id>
__global__ void pack_ids(typename IdSegments<Id>::Source source, MachineMap machines,
                         typename IdSegments<Id>::Packed out, Count cap,
                         typename IdSegments<Id>::Tally tally) {
  const Count size = source.count == nullptr ? source.bound : *source.count;
  if (tally.ids != nullptr && cuda::first_item<Count>() == 0) *tally.ids += size;
  const Count whole_warps = (size + cuda::kWarp - 1) / cuda::kWarp * cuda::kWarp;
  std::uint32_t num_own = 0;
  for (Count i = cuda::first_item<Count>(); i < whole_warps; i += cuda::item_stride<Count>()) {
    const NodeId node = i < size ? source.ids[i] : -1;
    const int segment = machines.segment_of(node);
    const unsigned peers = __match_any_sync(cuda::kAllLanes, segment);
    const unsigned leader = static_cast<unsigned>(__ffs(static_cast<int>(peers))) - 1u;
    unsigned long long first = 0;
    if (segment >= 0 && cuda::lane_index() == leader) {
      first = 1 + atomicAdd(reinterpret_cast<unsigned long long*>(out.last + segment),
                            static_cast<unsigned long long>(__popc(peers)));
    }
    first = __shfl_sync(cuda::kAllLanes, first, static_cast<int>(leader));
    if (segment < 0) continue;
    ++num_own;
    const Count place = static_cast<Count>(first) + __popc(peers & cuda::lanes_below());
    if (place >= cap) {
      *tally.overflow = 1;
      continue;
    }
    out.asked[segment * cap + place] = static_cast<Id>(node);
    out.positions[segment * cap + place] =
        source.positions == nullptr ? static_cast<std::int32_t>(i) : source.positions[i];
  }
  cuda::add_to_total(tally.remote, num_own);
}

}  // namespace

template <typename Id>
void pack_on_gpu(const PackTask<Id>& task, const cuda::Stream& stream) {
  pack_ids<Id><<<cuda::blocks_for(task.source.bound), cuda::kThreads, 0, stream.get()>>>(
      task.source, MachineMap{task.machine_offsets, task.num_machines, task.here}, task.out, task.cap,
      task.tally);
  cuda::check_launch("pack_ids");
}

template void pack_on_gpu(const PackTask<std::int32_t>& task, const cuda::Stream& stream);
template void pack_on_gpu(const PackTask<std::int64_t>& task, const cuda::Stream& stream);

}  // namespace strata::comm
