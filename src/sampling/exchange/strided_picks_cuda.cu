// SPDX-License-Identifier: Apache-2.0
#include "exchange/strided_picks_cuda.hpp"
#include "strata/cuda/buffer.hpp"

namespace strata::sampling {
namespace {

constexpr auto kDevice = cuda::Memory::device;
constexpr const char* kWhat = "picks between machines";

/// One thread per entry.
template <typename Id>
__global__ void spread(const Count* offsets, const Id* neighbors, const EdgeId* edge_ids, Count num_lists,
                       StridedPicks<Id> out) {
  for (Count e = first_item<Count>(); e < num_lists * out.stride; e += item_stride<Count>()) {
    const Count list = e / out.stride, pick = e - list * out.stride;
    const Count first = offsets[list], count = offsets[list + 1] - first;
    if (pick == 0) out.counts[list] = static_cast<std::int32_t>(count);
    if (pick >= count) continue;
    out.neighbors[e] = neighbors[first + pick];
    if (out.edge_ids != nullptr) out.edge_ids[e] = edge_ids[first + pick];
  }
}

__global__ void scatter_counts(const std::int32_t* positions, const std::int32_t* answered, Count num_lists,
                               Count* counts) {
  for (Count i = first_item<Count>(); i < num_lists; i += item_stride<Count>())
    if (positions[i] >= 0) counts[positions[i]] = answered[i];
}

/// One thread per entry of the picks.
template <typename Id>
__global__ void scatter_picks(PlacedPicks<Id> placed, DevicePickOutput<Id> out) {
  const StridedPicks<Id>& picks = placed.strided;
  std::uint32_t num_picks = 0;
  for (Count e = first_item<Count>(); e < placed.num_lists * picks.stride; e += item_stride<Count>()) {
    const Count list = e / picks.stride, pick = e - list * picks.stride;
    const Count position = placed.positions[list];
    if (position < 0) continue;
    const bool packed = out.offsets != nullptr;
    if (!packed && pick == 0) out.counts[position] = picks.counts[list];
    if (pick >= picks.counts[list]) continue;
    const Count place = (packed ? out.offsets[position] : position * picks.stride) + pick;
    out.neighbors[place] = picks.neighbors[e];
    if (out.edge_ids != nullptr) out.edge_ids[place] = picks.edge_ids[e];
    if (out.met != nullptr) mark(out.met, picks.neighbors[e]);
    ++num_picks;
  }
  add_to_total(out.offsets == nullptr ? out.num_edges : nullptr, num_picks);
}

/// One thread per place in the segments, which finds the list by search. A batch that does not fit has picks
/// behind the output's room.
template <typename Id>
__global__ void scatter_packed(PlacedPicks<Id> placed, DevicePickOutput<Id> out) {
  const PackedPicks<Id>& picks = placed.packed;
  const PickSegments& segments = picks.segments;
  for (Count e = first_item<Count>(); e < segments.num_picks(); e += item_stride<Count>()) {
    const Count segment = e / segments.picks;
    const Count* const before = picks.before + segment * segments.lists;
    const Count pick = before[0] + e - segment * segments.picks;
    if (pick >= before[segments.lists]) continue;
    const Count list = list_of(before, segments.lists, pick);
    const Count position = placed.positions[segment * segments.lists + list];
    if (position < 0) continue;
    const Count place = out.offsets[position] + pick - before[list];
    if (place >= out.edge_bound) continue;
    out.neighbors[place] = picks.neighbors[e];
    if (out.edge_ids != nullptr) out.edge_ids[place] = picks.edge_ids[e];
    if (out.met != nullptr) mark(out.met, picks.neighbors[e]);
  }
}

}  // namespace

template <typename Id>
StridedPicks<Id> StridedRoom<Id>::reserve_for(Count lists, int stride, bool edge_ids,
                                              const cuda::Stream& stream) {
  reserve(counts_, kDevice, lists, 0, kWhat, stream);
  reserve(neighbors_, kDevice, lists * stride, 0, kWhat, stream);
  if (edge_ids) reserve(edge_ids_, kDevice, lists * stride, 0, kWhat, stream);
  return {counts_.data(), neighbors_.data(), edge_ids ? edge_ids_.data() : nullptr, stride};
}

template <typename Id>
StridedChoice<Id>::StridedChoice(Device device) : scan_(device), total_(kDevice, 1, kWhat, device) {
  const cuda::Stream stream(device);
  cuda::fill_async(total_.data(), 0, sizeof(Count), stream);
  stream.synchronize();
}

template <typename Id>
void StridedChoice<Id>::run(const DeviceQuery& query, DevicePickChooser<Id>& chooser,
                            const StridedPicks<Id>& picks, const cuda::Stream& stream) {
  if (!chooser.fills_strided(query.fanout)) {
    run_packed(query, chooser, picks, stream);
    return;
  }
  chooser.choose(query, nullptr,
                 {.neighbors = picks.neighbors,
                  .edge_ids = picks.edge_ids,
                  .edge_bound = query.frontier.bound * query.fanout,
                  .counts = picks.counts,
                  .num_edges = total_.data()},
                 stream);
}

template <typename Id>
void StridedChoice<Id>::run_packed(const DeviceQuery& query, DevicePickChooser<Id>& chooser,
                                   const StridedPicks<Id>& picks, const cuda::Stream& stream) {
  const Count size = query.frontier.bound, bound = size * query.fanout;
  reserve(plan_, kDevice, size, 0, kWhat, stream);
  reserve(offsets_, kDevice, size + 1, 0, kWhat, stream);
  reserve(neighbors_, kDevice, bound, 0, kWhat, stream);
  if (picks.edge_ids != nullptr) reserve(edge_ids_, kDevice, bound, 0, kWhat, stream);
  chooser.measure(query, plan_.data(), offsets_.data(), stream);
  scan_.exclusive(offsets_.data(), size + 1, stream);
  chooser.choose(query, plan_.data(),
                 {.neighbors = neighbors_.data(),
                  .edge_ids = picks.edge_ids != nullptr ? edge_ids_.data() : nullptr,
                  .edge_bound = bound,
                  .offsets = offsets_.data()},
                 stream);
  spread<<<blocks_for(bound), kThreads, 0, stream.get()>>>(offsets_.data(), neighbors_.data(),
                                                           edge_ids_.data(), size, picks);
  cuda::check_launch("spread");
}

template <typename Id>
void place_counts(const PlacedPicks<Id>& placed, Count* counts, const cuda::Stream& stream) {
  if (!placed.any()) return;
  scatter_counts<<<blocks_for(placed.num_lists), kThreads, 0, stream.get()>>>(
      placed.positions, placed.is_packed() ? placed.packed.counts : placed.strided.counts, placed.num_lists,
      counts);
  cuda::check_launch("scatter_counts");
}

template <typename Id>
void place_picks(const PlacedPicks<Id>& placed, const DevicePickOutput<Id>& out, const cuda::Stream& stream) {
  if (!placed.any()) return;
  if (placed.is_packed()) {
    scatter_packed<<<blocks_for(placed.packed.segments.num_picks()), kThreads, 0, stream.get()>>>(placed,
                                                                                                  out);
    cuda::check_launch("scatter_packed");
    return;
  }
  scatter_picks<<<blocks_for(placed.num_lists * placed.strided.stride), kThreads, 0, stream.get()>>>(placed,
                                                                                                     out);
  cuda::check_launch("scatter_picks");
}

template class StridedRoom<std::int32_t>;
template class StridedRoom<std::int64_t>;
template class StridedChoice<std::int32_t>;
template class StridedChoice<std::int64_t>;
template void place_counts(const PlacedPicks<std::int32_t>&, Count*, const cuda::Stream&);
template void place_counts(const PlacedPicks<std::int64_t>&, Count*, const cuda::Stream&);
template void place_picks(const PlacedPicks<std::int32_t>&, const DevicePickOutput<std::int32_t>&,
                          const cuda::Stream&);
template void place_picks(const PlacedPicks<std::int64_t>&, const DevicePickOutput<std::int64_t>&,
                          const cuda::Stream&);

}  // namespace strata::sampling
