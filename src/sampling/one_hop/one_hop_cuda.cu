// SPDX-License-Identifier: Apache-2.0
#include <cub/device/device_scan.cuh>
#include <utility>

#include "choosers/pick_lanes_cuda.cuh"
#include "choosers/weighted_race_cuda.cuh"
#include "launch_cuda.cuh"
#include "one_hop/hop_rules.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"

namespace strata::sampling {
namespace {

constexpr Count kMostInWarp = 256;  // edges of a list that a warp keeps in registers
constexpr Count kNothing = ~(Count{1} << 63);

__device__ inline void note_first(Count* first, Count position) {
  atomicMin(reinterpret_cast<long long*>(first), static_cast<long long>(position));
}

/// The weights of one list; notes the array's first entry that is no weight.
template <typename Weight>
struct CheckedWeights {
  ListWeights<Weight> list;
  Count* bad;
  __device__ float operator[](std::uint32_t position) const {
    const float weight = list[position];
    if (!is_weight(weight)) note_first(bad, list.begin + position);
    return weight;
  }
};

/// What the kernels of a hop read and fill: by entry of the seeds.
template <typename Id, typename Weight>
struct HopTable {
  PiecedArray indptr;
  PiecedArray indices;
  PiecedArray weights;
  IdSpan seeds;
  HopRule rule;
  Count* begins;
  Count* degrees;
  Count* offsets;            ///< [seeds + 3]; counts until the scan, bad_seed and bad_weight
  std::uint32_t* positions;  ///< [seeds * fanout] of weighted picks in their lists; null without weights

  /// The first entry that is no node, and the first that is no weight; behind the number of edges, so that
  /// one copy brings all three.
  STRATA_HOST_DEVICE Count* bad_seed() const { return offsets + seeds.size + 1; }
  STRATA_HOST_DEVICE Count* bad_weight() const { return offsets + seeds.size + 2; }
  __device__ NodeId seed(Count i) const {
    return seeds.wide ? static_cast<const std::int64_t*>(seeds.data)[i]
                      : static_cast<const std::int32_t*>(seeds.data)[i];
  }
  __device__ CheckedWeights<Weight> weights_of(Count i) const {
    return {{&weights, begins[i]}, bad_weight()};
  }
  __device__ Race<CheckedWeights<Weight>> race(Count i) const {
    return {weights_of(i), entry_key(rule.key, i), static_cast<std::uint32_t>(degrees[i])};
  }
};

// One thread per entry: two entries of indptr. Weighted counts follow.
template <typename Id, typename Weight>
__global__ void find_lists(const __grid_constant__ HopTable<Id, Weight> table) {
  for (Count i = first_item<Count>(); i <= table.seeds.size; i += item_stride<Count>()) {
    if (i == table.seeds.size) {
      table.offsets[i] = 0;
      continue;
    }
    const NodeId seed = table.seed(i);
    Count begin = 0, degree = 0;
    bool is_list = seed >= 0 && seed + 1 < table.indptr.size;
    if (is_list) {
      begin = id_at(table.indptr, seed);
      degree = id_at(table.indptr, seed + 1) - begin;
      is_list = begin >= 0 && degree >= 0 && begin + degree <= table.indices.size;
    }
    if (!is_list) {
      degree = 0;
      note_first(table.bad_seed(), i);
    }
    table.begins[i] = begin;
    table.degrees[i] = degree;
    table.offsets[i] = unweighted_count(table.rule, degree);
  }
}

/// A whole warp stores the positions that arrive no later than the finish, in the order of the list.
template <typename Arrival>
__device__ void store_by_warp(std::uint32_t* positions, std::uint32_t degree, std::uint64_t last,
                              Arrival&& arrival) {
  unsigned stored = 0;
  for (std::uint32_t first = 0; first < degree; first += kWarp) {
    const std::uint32_t position = first + lane_index();
    const bool taken = position < degree && arrival(position) <= last;
    const unsigned lanes = __ballot_sync(kAllLanes, taken);
    if (taken) positions[stored + __popc(lanes & lanes_below())] = position;
    stored += __popc(lanes);
  }
}

template <int kRounds, typename Id, typename Weight>
__device__ void run_in_warp(const HopTable<Id, Weight>& table, Count i) {
  const auto fanout = static_cast<std::uint32_t>(table.rule.fanout);
  const WarpRace<kRounds> race(table.race(i));
  const Finish finish = race.finish(fanout);
  std::uint32_t* const positions = table.positions + i * table.rule.fanout;
  unsigned stored = 0;
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    const bool taken = race.arrivals[r] <= finish.last;
    const unsigned lanes = __ballot_sync(kAllLanes, taken);
    if (taken) positions[stored + __popc(lanes & lanes_below())] = r * kWarp + lane_index();
    stored += __popc(lanes);
  }
  if (lane_index() == 0) table.offsets[i] = finish.count;
}

// One warp per list of at most kMostInWarp edges: 4 bytes per edge.
template <typename Id, typename Weight>
__global__ void __launch_bounds__(kThreads)
    race_in_warps(const __grid_constant__ HopTable<Id, Weight> table) {
  const Count warps = static_cast<Count>(gridDim.x) * kWarpsPerBlock;
  for (Count i = static_cast<Count>(blockIdx.x) * kWarpsPerBlock + threadIdx.x / kWarp; i < table.seeds.size;
       i += warps) {
    const Count degree = table.degrees[i];
    if (degree > kMostInWarp) continue;
    if (degree <= kWarp)
      run_in_warp<1>(table, i);
    else if (degree <= 2 * kWarp)
      run_in_warp<2>(table, i);
    else if (degree <= 4 * kWarp)
      run_in_warp<4>(table, i);
    else
      run_in_warp<8>(table, i);
  }
}

// One block per longer list, which it reads about three times.
template <typename Id, typename Weight>
__global__ void __launch_bounds__(kThreads)
    race_in_blocks(const __grid_constant__ HopTable<Id, Weight> table) {
  __shared__ BlockRaceMemory memory;
  for (Count i = blockIdx.x; i < table.seeds.size; i += gridDim.x) {
    if (table.degrees[i] <= kMostInWarp) continue;
    const auto race = table.race(i);
    const StretchOfRace<CheckedWeights<Weight>> stretch{race, 0, race.degree};
    const Finish finish =
        BlockRace<StretchOfRace<CheckedWeights<Weight>>>(stretch, memory).finish(table.rule.fanout);
    if (threadIdx.x == 0) table.offsets[i] = finish.count;
    if (threadIdx.x < kWarp) {
      store_by_warp(table.positions + i * table.rule.fanout, race.degree, finish.last,
                    [&](std::uint32_t position) { return race.arrival_of(position); });
    }
    __syncthreads();
  }
}

__device__ inline std::uint64_t sum_of_warp(std::uint64_t value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    value += __shfl_xor_sync(kAllLanes, value, distance);
  return value;
}

__device__ inline std::uint64_t sum_up_to_lane(std::uint64_t value) {
  for (unsigned distance = 1; distance < kWarp; distance *= 2) {
    const std::uint64_t below_it = __shfl_up_sync(kAllLanes, value, distance);
    if (lane_index() >= distance) value += below_it;
  }
  return value;
}

// One warp per list, which it reads twice, and once more for every 32 draws.
template <typename Id, typename Weight>
__global__ void __launch_bounds__(kThreads)
    draw_in_warps(const __grid_constant__ HopTable<Id, Weight> table) {
  const Count warps = static_cast<Count>(gridDim.x) * kWarpsPerBlock;
  for (Count i = static_cast<Count>(blockIdx.x) * kWarpsPerBlock + threadIdx.x / kWarp; i < table.seeds.size;
       i += warps) {
    const auto degree = static_cast<std::uint32_t>(table.degrees[i]);
    const CheckedWeights<Weight> weights = table.weights_of(i);
    float largest = 0;
    for (std::uint32_t p = lane_index(); p < degree; p += kWarp) largest = fmaxf(largest, weights[p]);
    for (int distance = kWarp / 2; distance > 0; distance /= 2)
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, distance));
    if (lane_index() == 0) table.offsets[i] = largest > 0 ? table.rule.fanout : 0;
    if (!(largest > 0)) continue;
    const WholeWeights whole(largest, degree);
    std::uint64_t sum = 0;
    for (std::uint32_t p = lane_index(); p < degree; p += kWarp) sum += whole(weights[p]);
    sum = sum_of_warp(sum);
    const std::uint64_t key = entry_key(table.rule.key, i);
    for (Count first = 0; first < table.rule.fanout; first += kWarp) {
      const Count pick = first + lane_index();
      const std::uint64_t point = below(keyed_word(key, static_cast<std::uint64_t>(pick)), sum);
      std::uint64_t before = 0;
      std::uint32_t found = degree;
      for (std::uint32_t chunk = 0; chunk < degree; chunk += kWarp) {
        const std::uint32_t p = chunk + lane_index();
        const std::uint64_t up_to = before + sum_up_to_lane(p < degree ? whole(weights[p]) : 0);
        for (int lane = 0; lane < kWarp; ++lane) {
          const std::uint64_t end = __shfl_sync(kAllLanes, up_to, lane);
          if (found == degree && point < end) found = chunk + static_cast<std::uint32_t>(lane);
        }
        before = __shfl_sync(kAllLanes, up_to, kWarp - 1);
      }
      if (pick < table.rule.fanout) table.positions[i * table.rule.fanout + pick] = found;
    }
  }
}

/// Writes an edge, whose neighbor is given.
template <typename Id, typename Weight>
__device__ void put(const HopTable<Id, Weight>& table, const HopEdges& out, Count i, Count edge,
                    Id neighbor) {
  if (out.seeds != nullptr) {
    if (table.seeds.wide)
      static_cast<std::int64_t*>(out.seeds)[edge] = table.seed(i);
    else
      static_cast<std::int32_t*>(out.seeds)[edge] = static_cast<std::int32_t>(table.seed(i));
  }
  static_cast<Id*>(out.neighbors)[out.and_seeds ? edge + i : edge] = neighbor;
}

template <typename Id, typename Weight>
__device__ void put_pick(const HopTable<Id, Weight>& table, const HopEdges& out, Count i, Count j,
                         Count edge) {
  const Count position =
      table.positions != nullptr
          ? table.positions[i * table.rule.fanout + j]
          : unweighted_position(table.rule, entry_key(table.rule.key, i), table.degrees[i], j);
  put(table, out, i, edge, element<Id>(table.indices, table.begins[i] + position));
}

// One lane per pick, and several entries per warp: 16 bytes read that its neighbors share, one sector of the
// indices, 16 bytes written.
template <typename Id, typename Weight>
__global__ void __launch_bounds__(kThreads)
    put_subsets(const __grid_constant__ HopTable<Id, Weight> table, HopEdges out) {
  const PickLanes lanes(static_cast<unsigned>(table.rule.fanout));
  const Count at_once = kInFlight * lanes.nodes;
  const Count warp = static_cast<Count>(blockIdx.x) * kWarpsPerBlock + threadIdx.x / kWarp;
  for (Count first = warp * at_once; first < table.seeds.size;
       first += static_cast<Count>(gridDim.x) * kWarpsPerBlock * at_once) {
    Count edges[kInFlight];
    Id neighbors[kInFlight];
#pragma unroll
    for (int f = 0; f < kInFlight; ++f) {
      const Count i = first + f * lanes.nodes + lanes.node;
      const Count degree = lanes.used() && i < table.seeds.size ? table.degrees[i] : 0;
      const Count position = position_of(lanes, degree, entry_key(table.rule.key, i));
      const bool live = lanes.pick < degree;
      edges[f] = live ? table.offsets[i] + lanes.pick : -1;
      neighbors[f] = live ? element<Id>(table.indices, table.begins[i] + position) : Id{0};
    }
#pragma unroll
    for (int f = 0; f < kInFlight; ++f)
      if (edges[f] >= 0) put(table, out, first + f * lanes.nodes + lanes.node, edges[f], neighbors[f]);
  }
}

// One thread per possible pick.
template <typename Id, typename Weight>
__global__ void __launch_bounds__(kThreads)
    put_picks(const __grid_constant__ HopTable<Id, Weight> table, HopEdges out) {
  const Count fanout = table.rule.fanout, picks = table.seeds.size * fanout;
  for (Count t = first_item<Count>(); t < picks; t += item_stride<Count>()) {
    // Division by 32 bits is several times faster.
    const Count i = picks <= ~std::uint32_t{0}
                        ? static_cast<std::uint32_t>(t) / static_cast<std::uint32_t>(fanout)
                        : t / fanout;
    const Count j = t - i * fanout, edge = table.offsets[i] + j;
    if (edge < table.offsets[i + 1]) put_pick(table, out, i, j, edge);
  }
}

// One thread per edge, which finds its list by search.
template <typename Id, typename Weight>
__global__ void __launch_bounds__(kThreads)
    put_all(const __grid_constant__ HopTable<Id, Weight> table, HopEdges out, Count num_edges) {
  for (Count edge = first_item<Count>(); edge < num_edges; edge += item_stride<Count>()) {
    const Count i = list_of(table.offsets, table.seeds.size, edge);
    put_pick(table, out, i, edge - table.offsets[i], edge);
  }
}

// One thread per entry writes the entry itself behind its neighbors.
template <typename Id, typename Weight>
__global__ void put_seeds(const __grid_constant__ HopTable<Id, Weight> table, HopEdges out) {
  for (Count i = first_item<Count>(); i < table.seeds.size; i += item_stride<Count>())
    static_cast<Id*>(out.neighbors)[table.offsets[i + 1] + i] = static_cast<Id>(table.seed(i));
}

/// The number of blocks that have work.
unsigned blocks_of_warps(Count warps) { return blocks_for(warps * kWarp); }

template <typename Id, typename Weight>
class HopOnGpu final : public OneHop {
 public:
  HopOnGpu(const HopArrays& arrays, const IdSpan& seeds, const HopRule& rule, HopPlace place)
      : place_(std::move(place)),
        table_{.indptr = arrays.indptr,
               .indices = arrays.indices,
               .weights = arrays.weights.value_or(PiecedArray{}),
               .seeds = seeds,
               .rule = rule,
               .begins = array<Count>(seeds.size),
               .degrees = array<Count>(seeds.size),
               .offsets = array<Count>(seeds.size + 3),
               .positions = arrays.weights ? array<std::uint32_t>(seeds.size * rule.fanout) : nullptr} {
    measure(arrays.weights.has_value());
  }

  Count num_edges() const override { return num_edges_; }

  void choose(const HopEdges& out) override {
    const cuda::DeviceGuard guard(place_.stream.device());
    if (out.and_seeds && table_.seeds.size > 0) {
      put_seeds<<<blocks_for(table_.seeds.size), kThreads, 0, place_.stream.get()>>>(table_, out);
      cuda::check_launch("put_seeds");
    }
    if (num_edges_ == 0) return;
    const HopRule& rule = table_.rule;
    const bool is_drawn = table_.positions != nullptr || rule.replacement == Replacement::with;
    if (rule.fanout < 0) {
      put_all<<<blocks_for(num_edges_), kThreads, 0, place_.stream.get()>>>(table_, out, num_edges_);
    } else if (!is_drawn && rule.fanout <= Subset::kMaxCount) {
      const Count per_warp = kInFlight * (kWarp / rule.fanout);
      const unsigned blocks = blocks_of_warps((table_.seeds.size + per_warp - 1) / per_warp);
      put_subsets<<<blocks, kThreads, 0, place_.stream.get()>>>(table_, out);
    } else {
      put_picks<<<blocks_for(table_.seeds.size * rule.fanout), kThreads, 0, place_.stream.get()>>>(table_,
                                                                                                   out);
    }
    cuda::check_launch("put_picks");
  }

  void starts(Count* out) const override {
    const cuda::DeviceGuard guard(place_.stream.device());
    cuda::copy_async(out, table_.offsets, static_cast<std::size_t>(table_.seeds.size + 1) * sizeof(Count),
                     place_.stream);
  }

 private:
  template <typename T>
  T* array(Count size) const {
    return static_cast<T*>(place_.allocate(static_cast<std::size_t>(size) * sizeof(T)));
  }

  void measure(bool weighted) {
    const cuda::DeviceGuard guard(place_.stream.device());
    CUstream_st* const stream = place_.stream.get();
    const Count size = table_.seeds.size;
    static constexpr Count kAllGood[] = {kNothing, kNothing};
    cuda::copy_async(table_.bad_seed(), kAllGood, sizeof(kAllGood), place_.stream);
    find_lists<<<blocks_for(size + 1), kThreads, 0, stream>>>(table_);
    cuda::check_launch("find_lists");
    if (weighted && size > 0 && table_.rule.fanout > 0) choose_by_weight(stream);
    scan(stream);
    struct Outcome {
      Count num_edges, bad_seed, bad_weight;
    } outcome{};
    cuda::copy_async(&outcome, table_.offsets + size, sizeof(outcome), place_.stream);
    place_.stream.synchronize();
    if (outcome.bad_seed != kNothing) refuse(outcome.bad_seed);
    if (outcome.bad_weight != kNothing) refuse_weight(outcome.bad_weight);
    num_edges_ = outcome.num_edges;
  }

  void choose_by_weight(CUstream_st* stream) const {
    const Count size = table_.seeds.size;
    if (table_.rule.replacement == Replacement::with) {
      draw_in_warps<<<blocks_of_warps(size), kThreads, 0, stream>>>(table_);
      return cuda::check_launch("draw_in_warps");
    }
    race_in_warps<<<blocks_of_warps(size), kThreads, 0, stream>>>(table_);
    cuda::check_launch("race_in_warps");
    race_in_blocks<<<blocks_for(size * kThreads), kThreads, 0, stream>>>(table_);
    cuda::check_launch("race_in_blocks");
  }

  void scan(CUstream_st* stream) const {
    const Count size = table_.seeds.size + 1;
    std::size_t bytes = 0;
    cuda::check(cub::DeviceScan::ExclusiveSum(nullptr, bytes, table_.offsets, table_.offsets, size, stream),
                "cub::DeviceScan");
    cuda::check(cub::DeviceScan::ExclusiveSum(place_.allocate(bytes), bytes, table_.offsets, table_.offsets,
                                              size, stream),
                "cub::DeviceScan");
  }

  [[noreturn]] void refuse(Count position) const {
    NodeId seed = 0;
    const std::size_t bytes = table_.seeds.wide ? 8 : 4;
    std::int32_t narrow = 0;
    void* const to = table_.seeds.wide ? static_cast<void*>(&seed) : &narrow;
    const auto* const from =
        static_cast<const std::byte*>(table_.seeds.data) + static_cast<std::size_t>(position) * bytes;
    cuda::copy_async(to, from, bytes, place_.stream);
    place_.stream.synchronize();
    if (!table_.seeds.wide) seed = narrow;
    if (seed >= 0 && seed + 1 < table_.indptr.size) refuse_list(seed, table_.indices.size);
    refuse_seed(position, seed, table_.indptr.size - 1);
  }

  HopPlace place_;
  HopTable<Id, Weight> table_;
  Count num_edges_ = 0;
};

}  // namespace

std::unique_ptr<OneHop> make_hop_on_gpu(const HopArrays& arrays, const IdSpan& seeds, const HopRule& rule,
                                        HopPlace place) {
  return visit_types(arrays, [&](auto index, auto weight) -> std::unique_ptr<OneHop> {
    return std::make_unique<HopOnGpu<decltype(index), decltype(weight)>>(arrays, seeds, rule,
                                                                         std::move(place));
  });
}

}  // namespace strata::sampling
