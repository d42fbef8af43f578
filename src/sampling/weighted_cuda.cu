#include "choice_rules.hpp"
#include "lists_cuda.cuh"

namespace strata::sampling {
namespace {

constexpr Count kMostInWarp = 256;

/// A list whose edges race for slots.
struct Race {
  const float* weights;  // of the list
  std::uint64_t key;
  std::uint32_t degree;

  __device__ std::uint64_t arrival_of(std::uint32_t position) const {
    if (position >= degree) return kNeverArrives;
    const float weight = __ldg(weights + position);
    return weight > 0 ? arrival(keyed_word(key, position), weight, position) : kNeverArrives;
  }
};

/// The last arrival that gets a slot, and how many slots there are. DeviceRange::key carries it from
/// measure() to choose().
struct Finish {
  std::uint64_t last;
  std::uint32_t count;
};
constexpr std::uint64_t kEveryArrival = kNeverArrives - 1;

struct RaceQuery {
  DeviceLists lists;
  DeviceQuery query;

  __device__ DeviceRange range(Count i) const { return lists.range(query.frontier.nodes[i]); }
  __device__ Race race(Count i, const DeviceRange& range) const {
    return {lists.weights + range.begin, lists.choice_key(query.frontier.nodes[i], query),
            static_cast<std::uint32_t>(range.degree)};
  }
};

/// Arrivals of a list of at most kRounds * 32 edges, in the registers of a warp: round r of lane l is
/// position r * 32 + l.
template <int kRounds>
struct WarpRace {
  std::uint64_t arrivals[kRounds];

  __device__ explicit WarpRace(const Race& race) {
#pragma unroll
    for (int r = 0; r < kRounds; ++r)
      arrivals[r] = race.arrival_of(static_cast<std::uint32_t>(r) * kWarp + lane_index());
  }

  __device__ static std::uint32_t order(std::uint64_t arrival) {
    return static_cast<std::uint32_t>(arrival >> 32);
  }
  __device__ std::uint32_t count_up_to(std::uint32_t bound) const {
    std::uint32_t count = 0;
#pragma unroll
    for (int r = 0; r < kRounds; ++r)
      count += static_cast<std::uint32_t>(__popc(__ballot_sync(kAllLanes, order(arrivals[r]) <= bound)));
    return count;
  }

  __device__ Finish finish(std::uint32_t fanout) const {
    std::uint32_t num_arriving = 0, first = ~0u, last = 0;
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      const bool arrives = arrivals[r] != kNeverArrives;
      num_arriving += static_cast<std::uint32_t>(__popc(__ballot_sync(kAllLanes, arrives)));
      first = min(first, order(arrivals[r]));
      if (arrives) last = max(last, order(arrivals[r]));
    }
    if (num_arriving <= fanout) return {kEveryArrival, num_arriving};
    return {last_of(fanout, __reduce_min_sync(kAllLanes, first) - 1, __reduce_max_sync(kAllLanes, last)),
            fanout};
  }

 private:
  /// Halves (low, high] until just `fanout` arrive by its middle. REQUIRES: fewer than `fanout` up to low,
  /// more up to high.
  __device__ std::uint64_t last_of(std::uint32_t fanout, std::uint32_t low, std::uint32_t high) const {
    std::uint32_t up_to_low = 0;
    while (high - low > 1) {
      const std::uint32_t middle = low + (high - low) / 2;
      const std::uint32_t count = count_up_to(middle);
      if (count == fanout) return (static_cast<std::uint64_t>(middle) << 32) | ~0u;
      if (count < fanout) {
        low = middle;
        up_to_low = count;
      } else {
        high = middle;
      }
    }
    return last_of_equals(high, fanout - up_to_low);
  }

  /// Of equal arrivals those of lower positions come first.
  __device__ std::uint64_t last_of_equals(std::uint32_t equal, std::uint32_t wanted) const {
    std::uint64_t last = 0;
    for (int r = 0; r < kRounds; ++r) {
      unsigned lanes = __ballot_sync(kAllLanes, order(arrivals[r]) == equal);
      const auto count = static_cast<std::uint32_t>(__popc(lanes));
      if (wanted > 0 && wanted <= count) {
        for (std::uint32_t skipped = 1; skipped < wanted; ++skipped) lanes &= lanes - 1;
        last = (static_cast<std::uint64_t>(equal) << 32) |
               static_cast<std::uint32_t>(r * kWarp + __ffs(static_cast<int>(lanes)) - 1);
        wanted = 0;
      }
      wanted -= min(wanted, count);
    }
    return last;
  }
};

/// Puts the edges that have arrived by finish.last into slots, in the order of the list; by a warp.
template <typename Id, typename Arrival>
__device__ void put_by_warp(const SlotWriter<Id>& writer, const DeviceRange& range, Count first_slot,
                            std::uint64_t last, int rounds, Arrival&& arrival) {
  for (int r = 0; r < rounds; ++r) {
    const bool taken = arrival(r) <= last;
    const unsigned lanes = __ballot_sync(kAllLanes, taken);
    if (taken) writer.put(first_slot + __popc(lanes & lanes_below()), range.begin + r * kWarp + lane_index());
    first_slot += __popc(lanes);
  }
}

/// What is done once the finish of node i is known.
struct Measure {
  DeviceRange* plan;
  Count* counts;

  __device__ void tell(Count i, DeviceRange range, const Finish& finish) const {
    range.key = finish.last;
    plan[i] = range;
    counts[i] = finish.count;
  }
  template <int kRounds>
  __device__ void operator()(Count i, const DeviceRange& range, const WarpRace<kRounds>&,
                             const Finish& finish) const {
    if (lane_index() == 0) tell(i, range, finish);
  }
  __device__ void by_block(Count i, const DeviceRange& range, const Race&, const Finish& finish) const {
    if (threadIdx.x == 0) tell(i, range, finish);
  }
  __device__ void clear(const DeviceFrontier& frontier, Count num_nodes) const {
    clear_rest(counts, num_nodes, frontier.bound + 1);
  }
  __device__ Count* total() const { return nullptr; }
};

template <typename Id>
struct PutStrided {
  SlotWriter<Id> writer;

  template <int kRounds>
  __device__ void operator()(Count i, const DeviceRange& range, const WarpRace<kRounds>& race,
                             const Finish& finish) const {
    Count slot = writer.first_slot(i);
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      const bool taken = race.arrivals[r] <= finish.last;
      const unsigned lanes = __ballot_sync(kAllLanes, taken);
      if (taken) writer.put(slot + __popc(lanes & lanes_below()), range.begin + r * kWarp + lane_index());
      slot += __popc(lanes);
    }
    if (lane_index() == 0) writer.out.counts[i] = static_cast<std::int32_t>(finish.count);
  }
  __device__ void by_block(Count i, const DeviceRange& range, const Race& race, const Finish& finish) const {
    put_by_block(writer, range, writer.first_slot(i), [&](Count position) {
      return race.arrival_of(static_cast<std::uint32_t>(position)) <= finish.last;
    });
    if (threadIdx.x == 0) writer.out.counts[i] = static_cast<std::int32_t>(finish.count);
  }
  __device__ void clear(const DeviceFrontier& frontier, Count num_nodes) const {
    clear_rest(writer.out.counts, num_nodes, frontier.bound);
  }
  __device__ Count* total() const { return writer.out.num_edges; }
};

/// Returns the number of slots.
template <int kRounds, typename Then>
__device__ std::uint32_t run_in_warp(const RaceQuery& races, Count i, const DeviceRange& range,
                                     const Then& then) {
  const WarpRace<kRounds> race(races.race(i, range));
  const Finish finish = race.finish(static_cast<std::uint32_t>(races.query.fanout));
  then(i, range, race, finish);
  return finish.count;
}

// A warp a list: 4 bytes and some 90 instructions an edge, then about ten halvings of four instructions a
// round.
template <typename Then>
__global__ void __launch_bounds__(kThreads) run_races(RaceQuery races, Then then, DeviceHubs hubs) {
  const DeviceFrontier& frontier = races.query.frontier;
  const Count num_nodes = *frontier.count;
  then.clear(frontier, num_nodes);
  std::uint32_t num_slots = 0;  // of this warp, the same in all lanes
  for_each_node(num_nodes, [&](Count i) {
    const DeviceRange range = races.range(i);
    if (range.degree <= kWarp) {
      num_slots += run_in_warp<1>(races, i, range, then);
    } else if (range.degree <= 2 * kWarp) {
      num_slots += run_in_warp<2>(races, i, range, then);
    } else if (range.degree <= 4 * kWarp) {
      num_slots += run_in_warp<4>(races, i, range, then);
    } else if (range.degree <= kMostInWarp) {
      num_slots += run_in_warp<kMostInWarp / kWarp>(races, i, range, then);
    } else if (lane_index() == 0) {
      hubs.add(i);
    }
  });
  add_to_total(then.total(), lane_index() == 0 ? num_slots : 0);
}

/// Finds the finish of a long list by a radix select over its arrivals: 12 bits of them are counted, those
/// that share the bits of the wanted one go on, until few are left. Two passes over the list, for the first
/// bits leave about an eighth of `fanout` edges.
class BlockRace {
 public:
  struct Memory {
    std::uint32_t histogram[1 << 12];
    std::uint64_t candidates[1 << 10];
    std::uint32_t warp_sums[kWarpsABlock];
    std::uint32_t num_candidates, bin, before_bin, bin_count;
    std::uint64_t last;
  };

  __device__ BlockRace(const Race& race, Memory& memory) : race_(race), memory_(memory) {}

  __device__ Finish finish(std::uint32_t fanout) {
    std::uint32_t wanted = fanout;
    std::uint64_t prefix = 0;
    for (int shift = 64 - kBits;; shift = max(shift - kBits, 0)) {
      const std::uint32_t num_counted = count(prefix, shift);
      if (shift == 64 - kBits && num_counted <= fanout) return {kEveryArrival, num_counted};
      find_bin(wanted);
      wanted -= memory_.before_bin;
      prefix = (prefix << kBits) | memory_.bin;
      if (memory_.bin_count <= kMostCandidates) return {last_of(prefix, shift, wanted), fanout};
    }
  }

 private:
  static constexpr int kBits = 12;
  static constexpr std::uint32_t kBins = 1u << kBits, kMostCandidates = 1u << 10;

  /// Calls body(arrival) for the edges that share the bits from `shift` on with the prefix.
  template <typename Body>
  __device__ void for_each(std::uint64_t prefix, int shift, Body&& body) const {
    for (std::uint32_t position = threadIdx.x; position < race_.degree; position += kThreads) {
      const std::uint64_t arrival = race_.arrival_of(position);
      if (arrival != kNeverArrives && (shift >= 64 || (arrival >> shift) == prefix)) body(arrival);
    }
  }

  /// Counts the edges below the prefix by their next bits; returns how many there are.
  __device__ std::uint32_t count(std::uint64_t prefix, int shift) {
    for (std::uint32_t bin = threadIdx.x; bin < kBins; bin += kThreads) memory_.histogram[bin] = 0;
    __syncthreads();
    std::uint32_t counted = 0;
    for_each(prefix, shift + kBits, [&](std::uint64_t arrival) {
      atomicAdd(&memory_.histogram[(arrival >> shift) & (kBins - 1)], 1u);
      ++counted;
    });
    counted = __reduce_add_sync(kAllLanes, counted);
    if (lane_index() == 0) memory_.warp_sums[threadIdx.x / kWarp] = counted;
    __syncthreads();
    std::uint32_t sum = 0;
    for (const std::uint32_t of_warp : memory_.warp_sums) sum += of_warp;
    return sum;
  }

  /// Sets the bin of the wanted arrival, which is the `wanted`-th of those counted.
  __device__ void find_bin(std::uint32_t wanted) {
    constexpr std::uint32_t kBinsAThread = kBins / kThreads;
    __syncthreads();
    const std::uint32_t first = threadIdx.x * kBinsAThread;
    std::uint32_t own = 0;
    for (std::uint32_t bin = first; bin < first + kBinsAThread; ++bin) own += memory_.histogram[bin];
    std::uint32_t up_to = own;  // an inclusive scan over the block
    for (int distance = 1; distance < kWarp; distance *= 2) {
      const std::uint32_t below = __shfl_up_sync(kAllLanes, up_to, static_cast<unsigned>(distance));
      if (lane_index() >= static_cast<unsigned>(distance)) up_to += below;
    }
    if (lane_index() == kWarp - 1) memory_.warp_sums[threadIdx.x / kWarp] = up_to;
    __syncthreads();
    for (unsigned w = 0; w < threadIdx.x / kWarp; ++w) up_to += memory_.warp_sums[w];
    std::uint32_t before = up_to - own;
    if (before < wanted && wanted <= up_to) {
      std::uint32_t bin = first;
      for (; before + memory_.histogram[bin] < wanted; ++bin) before += memory_.histogram[bin];
      memory_.bin = bin;
      memory_.before_bin = before;
      memory_.bin_count = memory_.histogram[bin];
    }
    __syncthreads();
  }

  /// The `wanted`-th of the few edges below the prefix.
  __device__ std::uint64_t last_of(std::uint64_t prefix, int shift, std::uint32_t wanted) {
    if (threadIdx.x == 0) memory_.num_candidates = 0;
    __syncthreads();
    for_each(prefix, shift, [&](std::uint64_t arrival) {
      memory_.candidates[atomicAdd(&memory_.num_candidates, 1u)] = arrival;
    });
    __syncthreads();
    for (std::uint32_t c = threadIdx.x; c < memory_.num_candidates; c += kThreads) {
      std::uint32_t rank = 1;
      for (std::uint32_t other = 0; other < memory_.num_candidates; ++other)
        rank += memory_.candidates[other] < memory_.candidates[c];
      if (rank == wanted) memory_.last = memory_.candidates[c];
    }
    __syncthreads();
    return memory_.last;
  }

  const Race& race_;
  Memory& memory_;
};

template <typename Then>
__global__ void __launch_bounds__(kThreads) run_hub_races(RaceQuery races, Then then, DeviceHubs hubs) {
  __shared__ BlockRace::Memory memory;
  std::uint32_t num_slots = 0;
  for_each_hub(hubs, [&](Count i) {
    __syncthreads();
    const DeviceRange range = races.range(i);
    const Race race = races.race(i, range);
    const Finish finish = BlockRace(race, memory).finish(static_cast<std::uint32_t>(races.query.fanout));
    then.by_block(i, range, race, finish);
    num_slots += finish.count;
  });
  add_to_total(then.total(), threadIdx.x == 0 ? num_slots : 0);
}

// Runs the races again, for packed lists whose places were not known when they were run first.
template <typename Id>
__global__ void __launch_bounds__(kThreads)
    put_packed(RaceQuery races, const DeviceRange* plan, SlotWriter<Id> writer) {
  for_each_node(*races.query.frontier.count, [&](Count i) {
    const DeviceRange range = plan[i];
    if (range.degree == 0 || range.degree > kMostInWarp) return;
    const Race race = races.race(i, range);
    const int rounds = static_cast<int>((range.degree + kWarp - 1) / kWarp);
    put_by_warp(writer, range, writer.first_slot(i), range.key, rounds,
                [&](int r) { return race.arrival_of(static_cast<std::uint32_t>(r) * kWarp + lane_index()); });
  });
}

template <typename Id>
__global__ void __launch_bounds__(kThreads)
    put_packed_hubs(RaceQuery races, const DeviceRange* plan, SlotWriter<Id> writer, DeviceHubs hubs) {
  for_each_hub(hubs, [&](Count i) {
    const DeviceRange range = plan[i];
    const Race race = races.race(i, range);
    put_by_block(writer, range, writer.first_slot(i), [&](Count position) {
      return race.arrival_of(static_cast<std::uint32_t>(position)) <= range.key;
    });
  });
}

template <typename Id>
class WeightedDeviceChooser final : public DeviceSlotChooser<Id> {
 public:
  explicit WeightedDeviceChooser(const store::GraphView& view)
      : view_(view), all_(make_uniform_device_chooser<Id>(view)), hubs_(view.device) {}

  bool fills_slots(int fanout) const override { return fanout > 0 && fanout <= kMostStride; }

  void measure(const DeviceQuery& query, DeviceRange* plan, Count* counts,
               const cuda::Stream& stream) override {
    if (query.fanout <= 0) return all_->measure(query, plan, counts, stream);
    run(query, Measure{plan, counts}, stream);
  }

  void choose(const DeviceQuery& query, const DeviceRange* plan, const DeviceSlotOutput<Id>& out,
              const cuda::Stream& stream) override {
    if (query.fanout <= 0) return all_->choose(query, plan, out, stream);
    const SlotWriter<Id> writer{DeviceLists(view_), out, query.fanout};
    if (out.offsets == nullptr) return run(query, PutStrided<Id>{writer}, stream);
    const RaceQuery races{DeviceLists(view_), query};
    put_packed<<<blocks_for_warps(query.frontier.bound), kThreads, 0, stream.get()>>>(races, plan, writer);
    cuda::check_launch("put_packed");
    put_packed_hubs<<<kHubBlocks, kThreads, 0, stream.get()>>>(races, plan, writer, hubs_.hubs());
    cuda::check_launch("put_packed_hubs");
  }

 private:
  template <typename Then>
  void run(const DeviceQuery& query, const Then& then, const cuda::Stream& stream) {
    const DeviceHubs hubs = hubs_.start(query.frontier.bound, stream);
    const RaceQuery races{DeviceLists(view_), query};
    run_races<<<blocks_for_warps(query.frontier.bound), kThreads, 0, stream.get()>>>(races, then, hubs);
    cuda::check_launch("run_races");
    run_hub_races<<<kHubBlocks, kThreads, 0, stream.get()>>>(races, then, hubs);
    cuda::check_launch("run_hub_races");
  }

  const store::GraphView& view_;
  std::unique_ptr<DeviceSlotChooser<Id>> all_;  // for fanouts that leave no choice
  HubList hubs_;
};

}  // namespace

template <typename Id>
std::unique_ptr<DeviceSlotChooser<Id>> make_weighted_device_chooser(const store::GraphView& view) {
  return std::make_unique<WeightedDeviceChooser<Id>>(view);
}
template std::unique_ptr<DeviceSlotChooser<std::int32_t>> make_weighted_device_chooser(
    const store::GraphView&);
template std::unique_ptr<DeviceSlotChooser<std::int64_t>> make_weighted_device_chooser(
    const store::GraphView&);

}  // namespace strata::sampling
