// SPDX-License-Identifier: Apache-2.0
#include "choosers/choice_rules.hpp"
#include "choosers/lists_cuda.cuh"
#include "strata/cuda/stream.hpp"

namespace strata::sampling {
namespace {

constexpr Count kMostInWarp = 1024;

template <typename Lists>
struct DrawQuery {
  Lists lists;
  DeviceQuery query;

  __device__ DeviceRange range(Count i) const { return lists.range(query.frontier.nodes[i], query); }
};

/// The part of a list that one warp of a group walks.
struct Share {
  std::uint32_t first, end;

  __device__ Share(std::uint32_t degree, unsigned warp, unsigned num_warps) {
    const std::uint32_t rounds = (degree + kWarp - 1) / kWarp, each = (rounds + num_warps - 1) / num_warps;
    first = min(degree, warp * each * kWarp);
    end = min(degree, first + each * kWarp);
  }
};

template <typename Weights>
__device__ float largest_of(const Weights& weights, const Share& share) {
  float largest = 0;
  for (std::uint32_t p = share.first + lane_index(); p < share.end; p += kWarp)
    largest = fmaxf(largest, weights[p]);
  return __uint_as_float(__reduce_max_sync(kAllLanes, __float_as_uint(largest)));  // correct for floats >= 0
}

__device__ std::uint64_t sum_over_warp(std::uint64_t value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    value += __shfl_xor_sync(kAllLanes, value, distance);
  return value;
}

template <typename Weights>
__device__ std::uint64_t sum_of(const Weights& weights, const Share& share, const WholeWeights& whole) {
  std::uint64_t sum = 0;
  for (std::uint32_t p = share.first + lane_index(); p < share.end; p += kWarp) sum += whole(weights[p]);
  return sum_over_warp(sum);
}

__device__ std::uint64_t up_to_lane(std::uint64_t value) {
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const std::uint64_t below = __shfl_up_sync(kAllLanes, value, static_cast<unsigned>(distance));
    if (lane_index() >= static_cast<unsigned>(distance)) value += below;
  }
  return value;
}

/// The data that all draws of a list share.
template <typename Weights>
struct Draws {
  Weights weights;
  WholeWeights whole;
  std::uint64_t key, total;
  std::uint32_t fanout;
};

/// Calls put(pick, position) for the draws that fall on the share; `before` is the sum of the weights before
/// it. Each lane has one draw, and finds among the 32 edges around it the first one whose sum exceeds it.
template <typename Weights, typename Put>
__device__ void find_draws(const Draws<Weights>& draws, const Share& share, std::uint64_t before, Put&& put) {
  for (std::uint32_t first_pick = 0; first_pick < draws.fanout; first_pick += kWarp) {
    const std::uint32_t pick = first_pick + lane_index();
    const std::uint64_t point =
        pick < draws.fanout ? below(keyed_word(draws.key, pick), draws.total) : ~std::uint64_t{0};
    std::uint64_t begin = before;
    for (std::uint32_t p = share.first; p < share.end; p += kWarp) {
      const bool exists = p + lane_index() < share.end;
      const std::uint64_t end = begin + up_to_lane(exists ? draws.whole(draws.weights[p + lane_index()]) : 0);
      const std::uint64_t last = __shfl_sync(kAllLanes, end, kWarp - 1);
      const bool here = point >= begin && point < last;
      if (__any_sync(kAllLanes, here)) {
        unsigned edge = 0;  // number of the 32 edges whose sum does not exceed the point
        for (unsigned half = kWarp / 2; half > 0; half /= 2) {
          const std::uint64_t sum = __shfl_sync(kAllLanes, end, static_cast<int>(edge + half - 1));
          if (sum <= point) edge += half;
        }
        if (here) put(pick, p + edge);
      }
      begin = last;
    }
  }
}

template <typename Lists>
__global__ void __launch_bounds__(kThreads) measure_draws(const __grid_constant__ DrawQuery<Lists> draws,
                                                          DeviceRange* plan, Count* counts, DeviceHubs hubs) {
  const DeviceFrontier& frontier = draws.query.frontier;
  const Count num_nodes = *frontier.count;
  clear_rest(counts, num_nodes, frontier.bound + 1);
  for_each_node(num_nodes, [&](Count i) {
    const DeviceRange range = draws.range(i);
    const auto weights = draws.lists.weights_of(range, draws.query);
    bool positive = false;  // until the first one: most lists begin with it
    for (Count first = 0; first < range.degree && !positive; first += kWarp) {
      const Count p = first + lane_index();
      positive = __any_sync(kAllLanes, p < range.degree && weights[p] > 0);
    }
    if (lane_index() > 0) return;
    plan[i] = range;
    counts[i] = positive ? draws.query.fanout : 0;
    if (positive && range.degree > kMostInWarp) hubs.add(i);
  });
}

template <typename Id, typename Lists>
__global__ void __launch_bounds__(kThreads)
    choose_draws(const __grid_constant__ DrawQuery<Lists> draws,
                 const __grid_constant__ PickWriter<Id, Lists> writer, DeviceHubs hubs) {
  const DeviceFrontier& frontier = draws.query.frontier;
  const Count num_nodes = *frontier.count;
  if (writer.strided()) clear_rest(writer.out.counts, num_nodes, frontier.bound);
  std::uint32_t num_picks = 0;
  for_each_node(num_nodes, [&](Count i) {
    const DeviceRange range = draws.range(i);
    if (range.degree > kMostInWarp) {  // for packed lists measure() found the hubs
      if (writer.strided() && lane_index() == 0) hubs.add(i);
      return;
    }
    const auto degree = static_cast<std::uint32_t>(range.degree);
    const Share all(degree, 0, 1);
    const auto weights = draws.lists.weights_of(range, draws.query);
    const float largest = largest_of(weights, all);
    std::uint32_t count = 0;
    if (largest > 0) {
      count = static_cast<std::uint32_t>(draws.query.fanout);
      const WholeWeights whole(largest, static_cast<std::uint32_t>(range.choices()));
      const Draws<std::remove_const_t<decltype(weights)>> of_list{
          weights, whole, draws.lists.choice_key(frontier.nodes[i], draws.query), sum_of(weights, all, whole),
          count};
      const Count first_pick = writer.first_pick(i);
      find_draws(of_list, all, 0, [&](std::uint32_t pick, std::uint32_t position) {
        writer.put(first_pick + pick, range.begin + position);
      });
    }
    if (writer.strided() && lane_index() == 0) writer.out.counts[i] = static_cast<std::int32_t>(count);
    num_picks += count;
  });
  if (writer.strided()) add_to_total(writer.out.num_edges, lane_index() == 0 ? num_picks : 0);
}

// Like choose_draws, but every warp of a block walks its share of the list.
template <typename Id, typename Lists>
__global__ void __launch_bounds__(kThreads)
    choose_hub_draws(const __grid_constant__ DrawQuery<Lists> draws,
                     const __grid_constant__ PickWriter<Id, Lists> writer, DeviceHubs hubs) {
  __shared__ float largest_of_warp[kWarpsPerBlock];
  __shared__ std::uint64_t sum_of_warp[kWarpsPerBlock];
  const unsigned warp = threadIdx.x / kWarp;
  std::uint32_t num_picks = 0;
  for_each_hub(hubs, [&](Count i) {
    const DeviceRange range = draws.range(i);
    const auto degree = static_cast<std::uint32_t>(range.degree);
    const Share share(degree, warp, kWarpsPerBlock);
    const auto weights = draws.lists.weights_of(range, draws.query);
    __syncthreads();
    largest_of_warp[warp] = largest_of(weights, share);
    __syncthreads();
    float largest = 0;
    for (const float of_warp : largest_of_warp) largest = fmaxf(largest, of_warp);
    std::uint32_t count = 0;
    if (largest > 0) {
      count = static_cast<std::uint32_t>(draws.query.fanout);
      const WholeWeights whole(largest, static_cast<std::uint32_t>(range.choices()));
      sum_of_warp[warp] = sum_of(weights, share, whole);
      __syncthreads();
      std::uint64_t before = 0, total = 0;
      for (unsigned w = 0; w < kWarpsPerBlock; ++w) {
        if (w < warp) before += sum_of_warp[w];
        total += sum_of_warp[w];
      }
      const Draws<std::remove_const_t<decltype(weights)>> of_list{
          weights, whole, draws.lists.choice_key(draws.query.frontier.nodes[i], draws.query), total, count};
      const Count first_pick = writer.first_pick(i);
      find_draws(of_list, share, before, [&](std::uint32_t pick, std::uint32_t position) {
        writer.put(first_pick + pick, range.begin + position);
      });
    }
    if (writer.strided() && threadIdx.x == 0) writer.out.counts[i] = static_cast<std::int32_t>(count);
    num_picks += count;
  });
  if (writer.strided()) add_to_total(writer.out.num_edges, threadIdx.x == 0 ? num_picks : 0);
}

template <typename Id>
class WeightedReplacingDeviceChooser final : public DevicePickChooser<Id> {
 public:
  explicit WeightedReplacingDeviceChooser(const store::GraphView& view)
      : view_(view), all_(make_uniform_device_chooser<Id>(view)), hubs_(view.device) {}

  bool fills_strided(int fanout) const override { return fanout > 0 && fanout <= kMostStride; }

  void measure(const DeviceQuery& query, DeviceRange* plan, Count* counts,
               const cuda::Stream& stream) override {
    if (query.fanout <= 0) return all_->measure(query, plan, counts, stream);
    const DeviceHubs hubs = hubs_.start(query.frontier.bound, stream);
    visit_lists(view_, [&]<typename Lists>(const Lists& lists) {
      measure_draws<<<blocks_for_warps(query.frontier.bound), kThreads, 0, stream.get()>>>(
          DrawQuery<Lists>{lists, query}, plan, counts, hubs);
    });
    cuda::check_launch("measure_draws");
  }

  void choose(const DeviceQuery& query, const DeviceRange* plan, const DevicePickOutput<Id>& out,
              const cuda::Stream& stream) override {
    if (query.fanout <= 0) return all_->choose(query, plan, out, stream);
    const DeviceHubs hubs = out.offsets == nullptr ? hubs_.start(query.frontier.bound, stream) : hubs_.hubs();
    visit_lists(view_, [&]<typename Lists>(const Lists& lists) {
      const PickWriter<Id, Lists> writer{lists, out, query.fanout};
      const DrawQuery<Lists> draws{lists, query};
      choose_draws<<<blocks_for_warps(query.frontier.bound), kThreads, 0, stream.get()>>>(draws, writer,
                                                                                          hubs);
      cuda::check_launch("choose_draws");
      choose_hub_draws<<<kHubBlocks, kThreads, 0, stream.get()>>>(draws, writer, hubs);
      cuda::check_launch("choose_hub_draws");
    });
  }

 private:
  const store::GraphView& view_;
  std::unique_ptr<DevicePickChooser<Id>> all_;  // for fanouts without a choice: -1 and 0
  HubList hubs_;
};

}  // namespace

template <typename Id>
std::unique_ptr<DevicePickChooser<Id>> make_weighted_replacing_device_chooser(const store::GraphView& view) {
  return std::make_unique<WeightedReplacingDeviceChooser<Id>>(view);
}
template std::unique_ptr<DevicePickChooser<std::int32_t>> make_weighted_replacing_device_chooser(
    const store::GraphView&);
template std::unique_ptr<DevicePickChooser<std::int64_t>> make_weighted_replacing_device_chooser(
    const store::GraphView&);

}  // namespace strata::sampling
