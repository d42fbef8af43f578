// SPDX-License-Identifier: Apache-2.0
#include "choosers/weighted_race_cuda.cuh"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::sampling {
namespace {

constexpr Count kMostInWarp = 256;
constexpr std::uint32_t kMostOfGiants = 1024;  // most picks of a giant; a node with more is a hub

template <typename Lists>
struct RaceQuery {
  Lists lists;
  DeviceQuery query;

  __device__ DeviceRange range(Count i) const { return lists.range(query.frontier.nodes[i], query); }
  __device__ auto race(Count i, const DeviceRange& range) const {
    const auto weights = lists.weights_of(range, query);
    // Only a node with a list is known to be a node: requests of other machines are padded with -1.
    const std::uint64_t key = range.degree > 0 ? lists.choice_key(query.frontier.nodes[i], query) : 0;
    return Race<std::remove_const_t<decltype(weights)>>{weights, key,
                                                        static_cast<std::uint32_t>(range.degree)};
  }
};

/// A whole warp writes the edges that arrive no later than finish.last to picks, in the order of the list.
template <typename Writer, typename Arrival>
__device__ void put_by_warp(const Writer& writer, const DeviceRange& range, Count first_pick,
                            std::uint64_t last, int rounds, Arrival&& arrival) {
  for (int r = 0; r < rounds; ++r) {
    const bool taken = arrival(r) <= last;
    const unsigned lanes = __ballot_sync(kAllLanes, taken);
    if (taken) writer.put(first_pick + __popc(lanes & lanes_below()), range.begin + r * kWarp + lane_index());
    first_pick += __popc(lanes);
  }
}

/// Stores the result for node i when its finish is known.
struct Measure {
  DeviceRange* plan;
  Count* counts;

  __device__ void store(Count i, DeviceRange range, const Finish& finish) const {
    range.key = finish.last;
    plan[i] = range;
    counts[i] = finish.count;
  }
  template <int kRounds>
  __device__ void operator()(Count i, const DeviceRange& range, const WarpRace<kRounds>&,
                             const Finish& finish) const {
    if (lane_index() == 0) store(i, range, finish);
  }
  template <typename OfList>
  __device__ void by_block(Count i, const DeviceRange& range, const OfList&, const Finish& finish) const {
    if (threadIdx.x == 0) store(i, range, finish);
  }
  __device__ void from_memory(Count i, const DeviceRange& range, const StoredArrivals&,
                              const Finish& finish) const {
    if (threadIdx.x == 0) store(i, range, finish);
  }
  __device__ void clear(const DeviceFrontier& frontier, Count num_nodes) const {
    clear_rest(counts, num_nodes, frontier.bound + 1);
  }
  __device__ Count* total() const { return nullptr; }
};

/// A whole block writes the stored arrivals that are no later than `last` to picks, in the order of the list;
/// at most kMostOfGiants.
template <typename Writer>
__device__ void put_stored(const Writer& writer, const DeviceRange& range, Count first_pick,
                           const StoredArrivals& stored, std::uint64_t last) {
  __shared__ std::uint32_t positions[kMostOfGiants];
  __shared__ std::uint32_t count;
  __syncthreads();
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  for (std::uint32_t index = threadIdx.x; index < stored.size(); index += kThreads)
    if (stored(index) <= last) positions[atomicAdd(&count, 1u)] = static_cast<std::uint32_t>(stored(index));
  __syncthreads();
  for (std::uint32_t p = threadIdx.x; p < count; p += kThreads) {
    std::uint32_t rank = 0;
    for (std::uint32_t other = 0; other < count; ++other) rank += positions[other] < positions[p];
    writer.put(first_pick + rank, range.begin + positions[p]);
  }
}

template <typename Id, typename Lists>
struct PutStrided {
  PickWriter<Id, Lists> writer;

  template <int kRounds>
  __device__ void operator()(Count i, const DeviceRange& range, const WarpRace<kRounds>& race,
                             const Finish& finish) const {
    Count pick = writer.first_pick(i);
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      const bool taken = race.arrivals[r] <= finish.last;
      const unsigned lanes = __ballot_sync(kAllLanes, taken);
      if (taken) writer.put(pick + __popc(lanes & lanes_below()), range.begin + r * kWarp + lane_index());
      pick += __popc(lanes);
    }
    if (lane_index() == 0) writer.out.counts[i] = static_cast<std::int32_t>(finish.count);
  }
  template <typename OfList>
  __device__ void by_block(Count i, const DeviceRange& range, const OfList& race,
                           const Finish& finish) const {
    put_by_block(writer, range, {0, range.degree}, writer.first_pick(i), [&](Count position) {
      return race.arrival_of(static_cast<std::uint32_t>(position)) <= finish.last;
    });
    if (threadIdx.x == 0) writer.out.counts[i] = static_cast<std::int32_t>(finish.count);
  }
  __device__ void from_memory(Count i, const DeviceRange& range, const StoredArrivals& stored,
                              const Finish& finish) const {
    put_stored(writer, range, writer.first_pick(i), stored, finish.last);
    if (threadIdx.x == 0) writer.out.counts[i] = static_cast<std::int32_t>(finish.count);
  }
  __device__ void clear(const DeviceFrontier& frontier, Count num_nodes) const {
    clear_rest(writer.out.counts, num_nodes, frontier.bound);
  }
  __device__ Count* total() const { return writer.out.num_edges; }
};

/// Returns the number of picks.
template <int kRounds, typename Lists, typename Then>
__device__ std::uint32_t run_in_warp(const RaceQuery<Lists>& races, Count i, const DeviceRange& range,
                                     const Then& then) {
  const WarpRace<kRounds> race(races.race(i, range));
  const Finish finish = race.finish(static_cast<std::uint32_t>(races.query.fanout));
  then(i, range, race, finish);
  return finish.count;
}

// One warp per list: 4 bytes and about 90 instructions per edge, then about ten bisections with four
// instructions per round.
template <typename Lists, typename Then>
__global__ void __launch_bounds__(kThreads)
    run_races(const __grid_constant__ RaceQuery<Lists> races, const __grid_constant__ Then then,
              DeviceHubs hubs, DeviceGiants giants) {
  const DeviceFrontier& frontier = races.query.frontier;
  const Count num_nodes = *frontier.count;
  then.clear(frontier, num_nodes);
  std::uint32_t num_picks = 0;  // of this warp, the same in all lanes
  for_each_node(num_nodes, [&](Count i) {
    const DeviceRange range = races.range(i);
    if (range.degree <= kWarp) {
      num_picks += run_in_warp<1>(races, i, range, then);
    } else if (range.degree <= 2 * kWarp) {
      num_picks += run_in_warp<2>(races, i, range, then);
    } else if (range.degree <= 4 * kWarp) {
      num_picks += run_in_warp<4>(races, i, range, then);
    } else if (range.degree <= kMostInWarp) {
      num_picks += run_in_warp<kMostInWarp / kWarp>(races, i, range, then);
    } else if (lane_index() == 0) {
      const bool giant = range.degree > DeviceGiants::kMostInBlock &&
                         races.query.fanout <= static_cast<int>(kMostOfGiants) && giants.add(i, range.degree);
      if (!giant) hubs.add(i);
    }
  });
  add_to_total(then.total(), lane_index() == 0 ? num_picks : 0);
}

template <typename Lists, typename Then>
__global__ void __launch_bounds__(kThreads)
    run_hub_races(const __grid_constant__ RaceQuery<Lists> races, const __grid_constant__ Then then,
                  DeviceHubs hubs) {
  __shared__ BlockRaceMemory memory;
  std::uint32_t num_picks = 0;
  for_each_hub(hubs, [&](Count i) {
    __syncthreads();
    const DeviceRange range = races.range(i);
    const auto race = races.race(i, range);
    const StretchOfRace whole{race, 0, race.degree};
    const Finish finish = BlockRace(whole, memory).finish(static_cast<std::uint32_t>(races.query.fanout));
    then.by_block(i, range, race, finish);
    num_picks += finish.count;
  });
  add_to_total(then.total(), threadIdx.x == 0 ? num_picks : 0);
}

/// The first arrivals of each segment of a giant: `fanout` per segment, kNeverArrives for none.
struct SegmentWinners {
  std::uint64_t* arrivals;
  std::uint32_t fanout;

  __device__ std::uint64_t* of(std::int32_t segment) const {
    return arrivals + static_cast<Count>(segment) * fanout;
  }
  __device__ StoredArrivals of_giant(std::int32_t first_segment, Count degree) const {
    return {of(first_segment), static_cast<std::uint32_t>(DeviceGiants::segments_of(degree)) * fanout};
  }
};

// One block per segment. Only the first `fanout` arrivals of a segment can be among those of the whole list.
template <typename Lists>
__global__ void __launch_bounds__(kThreads) run_segments(const __grid_constant__ RaceQuery<Lists> races,
                                                         DeviceGiants giants, SegmentWinners winners) {
  __shared__ BlockRaceMemory memory;
  __shared__ std::uint32_t count;
  for_each_segment(
      giants, [&](Count i) { return races.range(i).degree; },
      [&](Count i, const GiantSegment& segment) {
        const StretchOfRace stretch{races.race(i, races.range(i)), static_cast<std::uint32_t>(segment.first),
                                    static_cast<std::uint32_t>(segment.end)};
        __syncthreads();
        if (threadIdx.x == 0) count = 0;
        const Finish finish = BlockRace(stretch, memory).finish(winners.fanout);
        __syncthreads();
        std::uint64_t* const out = winners.of(segment.number);
        for (std::uint32_t index = threadIdx.x; index < stretch.size(); index += kThreads) {
          const std::uint64_t arrival = stretch(index);
          if (arrival <= finish.last) out[atomicAdd(&count, 1u)] = arrival;
        }
        for (std::uint32_t rest = finish.count + threadIdx.x; rest < winners.fanout; rest += kThreads)
          out[rest] = kNeverArrives;
      });
}

template <typename Lists, typename Then>
__global__ void __launch_bounds__(kThreads)
    finish_giants(const __grid_constant__ RaceQuery<Lists> races, const __grid_constant__ Then then,
                  DeviceGiants giants, SegmentWinners winners) {
  __shared__ BlockRaceMemory memory;
  std::uint32_t num_picks = 0;
  for_each_giant(giants, [&](Count i, std::int32_t first_segment) {
    __syncthreads();
    const DeviceRange range = races.range(i);
    const StoredArrivals stored = winners.of_giant(first_segment, range.degree);
    const Finish finish = BlockRace(stored, memory).finish(winners.fanout);
    then.from_memory(i, range, stored, finish);
    num_picks += finish.count;
  });
  add_to_total(then.total(), threadIdx.x == 0 ? num_picks : 0);
}

template <typename Id, typename Lists>
__global__ void __launch_bounds__(kThreads)
    put_packed_giants(const DeviceRange* plan, const __grid_constant__ PickWriter<Id, Lists> writer,
                      DeviceGiants giants, SegmentWinners winners) {
  for_each_giant(giants, [&](Count i, std::int32_t first_segment) {
    const DeviceRange range = plan[i];
    put_stored(writer, range, writer.first_pick(i), winners.of_giant(first_segment, range.degree), range.key);
  });
}

// Runs the races again, for packed lists, whose positions were not known when the races were run first.
template <typename Id, typename Lists>
__global__ void __launch_bounds__(kThreads)
    put_packed(const __grid_constant__ RaceQuery<Lists> races, const DeviceRange* plan,
               const __grid_constant__ PickWriter<Id, Lists> writer) {
  for_each_node(*races.query.frontier.count, [&](Count i) {
    const DeviceRange range = plan[i];
    if (range.degree == 0 || range.degree > kMostInWarp) return;
    const auto race = races.race(i, range);
    const int rounds = static_cast<int>((range.degree + kWarp - 1) / kWarp);
    put_by_warp(writer, range, writer.first_pick(i), range.key, rounds,
                [&](int r) { return race.arrival_of(static_cast<std::uint32_t>(r) * kWarp + lane_index()); });
  });
}

template <typename Id, typename Lists>
__global__ void __launch_bounds__(kThreads)
    put_packed_hubs(const __grid_constant__ RaceQuery<Lists> races, const DeviceRange* plan,
                    const __grid_constant__ PickWriter<Id, Lists> writer, DeviceHubs hubs) {
  for_each_hub(hubs, [&](Count i) {
    const DeviceRange range = plan[i];
    const auto race = races.race(i, range);
    put_by_block(writer, range, {0, range.degree}, writer.first_pick(i), [&](Count position) {
      return race.arrival_of(static_cast<std::uint32_t>(position)) <= range.key;
    });
  });
}

template <typename Id>
class WeightedDeviceChooser final : public DevicePickChooser<Id> {
 public:
  explicit WeightedDeviceChooser(const store::GraphView& view)
      : view_(view), all_(make_uniform_device_chooser<Id>(view)), hubs_(view.device), giants_(view) {}

  /// Lists with copies are always packed, because their races into picks are not worth kernels of their own.
  bool fills_strided(int fanout) const override {
    return fanout > 0 && fanout <= kMostStride && !is_divided(view_);
  }

  void measure(const DeviceQuery& query, DeviceRange* plan, Count* counts,
               const cuda::Stream& stream) override {
    if (query.fanout <= 0) return all_->measure(query, plan, counts, stream);
    visit_lists(view_, [&]<typename Lists>(const Lists& lists) {
      run(RaceQuery<Lists>{lists, query}, Measure{plan, counts}, stream);
    });
  }

  void choose(const DeviceQuery& query, const DeviceRange* plan, const DevicePickOutput<Id>& out,
              const cuda::Stream& stream) override {
    if (query.fanout <= 0) return all_->choose(query, plan, out, stream);
    visit_lists(view_, [&]<typename Lists>(const Lists& lists) {
      const PickWriter<Id, Lists> writer{lists, out, query.fanout};
      const RaceQuery<Lists> races{lists, query};
      if constexpr (!Lists::divided) {
        if (out.offsets == nullptr) return run(races, PutStrided<Id, Lists>{writer}, stream);
      }
      put(races, plan, writer, stream);
    });
  }

 private:
  /// Writes packed lists when it is known which edges get a pick.
  template <typename Lists>
  void put(const RaceQuery<Lists>& races, const DeviceRange* plan, const PickWriter<Id, Lists>& writer,
           const cuda::Stream& stream) {
    put_packed<<<blocks_for_warps(races.query.frontier.bound), kThreads, 0, stream.get()>>>(races, plan,
                                                                                            writer);
    cuda::check_launch("put_packed");
    put_packed_hubs<<<kHubBlocks, kThreads, 0, stream.get()>>>(races, plan, writer, hubs_.hubs());
    cuda::check_launch("put_packed_hubs");
    if (!races_giants(races.query)) return;
    put_packed_giants<<<kHubBlocks, kThreads, 0, stream.get()>>>(plan, writer, giants_.giants(),
                                                                 winners(races.query, stream));
    cuda::check_launch("put_packed_giants");
  }

  template <typename Lists, typename Then>
  void run(const RaceQuery<Lists>& races, const Then& then, const cuda::Stream& stream) {
    const DeviceQuery& query = races.query;
    const DeviceHubs hubs = hubs_.start(query.frontier.bound, stream);
    const DeviceGiants giants = giants_.start(stream);
    run_races<<<blocks_for_warps(query.frontier.bound), kThreads, 0, stream.get()>>>(races, then, hubs,
                                                                                     giants);
    cuda::check_launch("run_races");
    run_hub_races<<<kHubBlocks, kThreads, 0, stream.get()>>>(races, then, hubs);
    cuda::check_launch("run_hub_races");
    if (!races_giants(query)) return;
    run_segments<<<kHubBlocks, kThreads, 0, stream.get()>>>(races, giants, winners(query, stream));
    cuda::check_launch("run_segments");
    finish_giants<<<kHubBlocks, kThreads, 0, stream.get()>>>(races, then, giants, winners(query, stream));
    cuda::check_launch("finish_giants");
  }

  bool races_giants(const DeviceQuery& query) const {
    return giants_.any() && query.fanout <= static_cast<int>(kMostOfGiants);
  }
  SegmentWinners winners(const DeviceQuery& query, const cuda::Stream& stream) {
    reserve(winners_, cuda::Memory::device, giants_.num_segments() * query.fanout, 0, "first of long lists",
            stream);
    return {winners_.data(), static_cast<std::uint32_t>(query.fanout)};
  }

  const store::GraphView& view_;
  std::unique_ptr<DevicePickChooser<Id>> all_;  // for fanouts without a choice: -1 and 0
  HubList hubs_;
  GiantList giants_;
  cuda::Array<std::uint64_t> winners_;
};

}  // namespace

template <typename Id>
std::unique_ptr<DevicePickChooser<Id>> make_weighted_device_chooser(const store::GraphView& view) {
  return std::make_unique<WeightedDeviceChooser<Id>>(view);
}
template std::unique_ptr<DevicePickChooser<std::int32_t>> make_weighted_device_chooser(
    const store::GraphView&);
template std::unique_ptr<DevicePickChooser<std::int64_t>> make_weighted_device_chooser(
    const store::GraphView&);

}  // namespace strata::sampling
