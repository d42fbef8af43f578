// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "exchange/packed_picks_cuda.hpp"
#include "strata/cuda/buffer.hpp"

namespace strata::sampling {
namespace {

constexpr auto kDevice = cuda::Memory::device;
constexpr const char* kWhat = "picks between machines";

/// Sets the lists' counts, and where each list begins in its segment, or ends where there is no room.
template <typename Id>
__global__ void place_lists(PackedPicks<Id> picks, Count* offsets, Count* overflow) {
  const PickSegments& segments = picks.segments;
  for (Count i = first_item<Count>(); i < segments.num_lists(); i += item_stride<Count>()) {
    const Count segment = i / segments.lists,
                in_segment = picks.before[i] - picks.before[i - i % segments.lists],
                count = picks.before[i + 1] - picks.before[i];
    picks.counts[i] = static_cast<std::int32_t>(count);
    offsets[i] = segment * segments.picks + min(in_segment, segments.picks);
    if (in_segment + count > segments.picks) *overflow = 1;
  }
  if (first_item<Count>() == 0) offsets[segments.num_lists()] = segments.num_picks();
}

__global__ void copy_counts(const std::int32_t* counts, Count size, Count* out) {
  for (Count i = first_item<Count>(); i <= size; i += item_stride<Count>()) out[i] = i < size ? counts[i] : 0;
}

}  // namespace

template <typename Id>
PackedPicks<Id> PackedRoom<Id>::reserve_for(const PickSegments& segments, bool edge_ids,
                                            const cuda::Stream& stream) {
  const Count lists = segments.num_lists(), picks = segments.num_picks();
  reserve(counts_, kDevice, lists, 0, kWhat, stream);
  reserve(before_, kDevice, lists + 1, 0, kWhat, stream);
  reserve(neighbors_, kDevice, picks, 0, kWhat, stream);
  if (edge_ids) reserve(edge_ids_, kDevice, picks, 0, kWhat, stream);
  return {segments, counts_.data(), before_.data(), neighbors_.data(), edge_ids ? edge_ids_.data() : nullptr};
}

template <typename Id>
void PackedChoice<Id>::run(const DeviceQuery& query, DevicePickChooser<Id>& chooser,
                           const PackedPicks<Id>& picks, Count* overflow, const cuda::Stream& stream) {
  const Count size = query.frontier.bound;
  reserve(plan_, kDevice, size, 0, kWhat, stream);
  reserve(offsets_, kDevice, size + 1, 0, kWhat, stream);
  chooser.measure(query, plan_.data(), picks.before, stream);
  scan_.exclusive(picks.before, size + 1, stream);
  place_lists<<<blocks_for(size), kThreads, 0, stream.get()>>>(picks, offsets_.data(), overflow);
  cuda::check_launch("place_lists");
  chooser.choose(query, plan_.data(),
                 {.neighbors = picks.neighbors,
                  .edge_ids = picks.edge_ids,
                  .edge_bound = picks.segments.num_picks(),
                  .offsets = offsets_.data()},
                 stream);
}

template <typename Id>
void PackedChoice<Id>::sum(const PackedPicks<Id>& picks, const cuda::Stream& stream) {
  const Count size = picks.segments.num_lists();
  copy_counts<<<blocks_for(size + 1), kThreads, 0, stream.get()>>>(picks.counts, size, picks.before);
  cuda::check_launch("copy_counts");
  scan_.exclusive(picks.before, size + 1, stream);
}

template class PackedRoom<std::int32_t>;
template class PackedRoom<std::int64_t>;
template class PackedChoice<std::int32_t>;
template class PackedChoice<std::int64_t>;

}  // namespace strata::sampling
