// SPDX-License-Identifier: Apache-2.0
#include "choosers/lists_cuda.cuh"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::sampling {
namespace {

template <typename Indptr>
__global__ void count_segments(const __grid_constant__ Indptr indptr, Count num_nodes, Count* num_segments) {
  for (Count v = first_item<Count>(); v < num_nodes; v += item_stride<Count>()) {
    const Count degree = indptr[v + 1] - indptr[v];
    if (degree > DeviceGiants::kMostInBlock)
      atomicAdd(reinterpret_cast<unsigned long long*>(num_segments),
                static_cast<unsigned long long>(DeviceGiants::segments_of(degree)));
  }
}

}  // namespace

GiantList::GiantList(const store::GraphView& view) {
  const cuda::Stream stream(view.device);
  const cuda::Array<Count> total(cuda::Memory::device, 1, "segments of long lists", view.device);
  cuda::fill_async(total.data(), 0, sizeof(Count), stream);
  visit_lists(view, [&](const auto& lists) {
    count_segments<<<blocks_for(view.num_local), kThreads, 0, stream.get()>>>(lists.indptr, view.num_local,
                                                                              total.data());
  });
  cuda::check_launch("count_segments");
  Count num_segments = 0;
  cuda::copy_async(&num_segments, total.data(), sizeof(Count), stream);
  stream.synchronize();
  const auto on_device = [&](Count size) {
    return cuda::Array<std::int32_t>(cuda::Memory::device, size, "segments of long lists", view.device);
  };
  nodes_ = on_device(num_segments);
  segments_ = on_device(num_segments);
  if (num_segments > 0) counts_ = on_device(2);
}

}  // namespace strata::sampling
