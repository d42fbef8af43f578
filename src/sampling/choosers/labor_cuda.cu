// SPDX-License-Identifier: Apache-2.0
#include "choosers/choice_rules.hpp"
#include "choosers/lists_cuda.cuh"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::sampling {
namespace {

constexpr Count kMostInWarp = 512;
constexpr int kUnrolled = 4;  // reads in flight per lane
constexpr int kMaskWords = kMostInWarp / kWarp;
constexpr Count kMostMasks = Count{1} << 22;  // 256 MiB; with more nodes neighbors are read twice

/// The list of one node and the limit that decides for it.
struct LaborList {
  DeviceRange range;
  std::uint64_t limit;
  bool all;
};

template <typename Lists>
struct LaborQuery {
  Lists lists;
  DeviceQuery query;
  bool layer_dependent;

  __device__ LaborRule rule() const { return {*query.key, query.hop, layer_dependent}; }
  __device__ LaborList list(Count i) const { return list(lists.range(query.frontier.nodes[i], query)); }
  __device__ LaborList list(const DeviceRange& range) const {
    LaborList list{range, 0, false};
    list.all = list.range.choices() <= query.fanout;
    if (!list.all)
      list.limit = LaborRule::limit(static_cast<std::uint32_t>(query.fanout),
                                    static_cast<std::uint32_t>(list.range.choices()));
    return list;
  }
  __device__ bool takes(const LaborRule& rule, const LaborList& list, Count position) const {
    if (lists.excluded_of(list.range, query).holds(position)) return false;
    return list.all ||
           rule.of_source(lists.original_ids[lists.indices[list.range.begin + position]]) < list.limit;
  }

  /// Bit b of lane l says whether position 32 l + b is taken. Called by a whole warp, for a list of at most
  /// kMostInWarp entries.
  __device__ std::uint32_t mask(const LaborRule& rule, const LaborList& list) const {
    std::uint32_t word = 0;
    for (int first = 0; first * kWarp < list.range.degree; first += kUnrolled) {
      bool taken[kUnrolled];
#pragma unroll
      for (int r = 0; r < kUnrolled; ++r) {
        const Count position = (first + r) * kWarp + lane_index();
        taken[r] = position < list.range.degree && takes(rule, list, position);
      }
#pragma unroll
      for (int r = 0; r < kUnrolled; ++r) {
        const unsigned lanes = __ballot_sync(kAllLanes, taken[r]);
        if (lane_index() == static_cast<unsigned>(first + r)) word = lanes;
      }
    }
    return word;
  }

  /// The number of a stretch's positions first, first + stride and so on that are taken.
  __device__ std::uint32_t count(const LaborRule& rule, const LaborList& list, const Stretch& stretch,
                                 Count stride) const {
    std::uint32_t count = 0;
    for (Count position = stretch.first; position < stretch.end; position += kUnrolled * stride) {
#pragma unroll
      for (int r = 0; r < kUnrolled; ++r) {
        const Count at = position + r * stride;
        count += at < stretch.end && takes(rule, list, at);
      }
    }
    return count;
  }
};

// One warp per list. Each neighbor costs its entry of `indices` and a sector of `original_ids`.
template <typename Lists>
__global__ void __launch_bounds__(kThreads)
    measure_labor(const __grid_constant__ LaborQuery<Lists> labor, DeviceRange* plan, Count* counts,
                  DeviceHubs hubs, DeviceGiants giants, std::uint32_t* masks) {
  const DeviceFrontier& frontier = labor.query.frontier;
  const Count num_nodes = *frontier.count;
  clear_rest(counts, num_nodes, frontier.bound + 1);
  const LaborRule rule = labor.rule();
  for_each_node(num_nodes, [&](Count i) {
    const LaborList list = labor.list(i);
    if (lane_index() == 0) plan[i] = list.range;
    if (list.range.degree > kMostInWarp && !list.all) {
      if (lane_index() > 0) return;
      counts[i] = 0;
      const bool giant = list.range.degree > DeviceGiants::kMostInBlock && giants.add(i, list.range.degree);
      if (!giant) hubs.add(i);
      return;
    }
    std::uint32_t count = static_cast<std::uint32_t>(list.range.choices());
    if (!list.all) {
      const std::uint32_t word = labor.mask(rule, list);
      count = __reduce_add_sync(kAllLanes, static_cast<std::uint32_t>(__popc(word)));
      if (masks != nullptr && lane_index() < kMaskWords) masks[i * kMaskWords + lane_index()] = word;
    }
    if (lane_index() == 0) counts[i] = count;
  });
}

/// The number of positions of a stretch that are taken; all threads of a block get it.
template <typename Lists>
__device__ std::uint32_t count_by_block(const LaborQuery<Lists>& labor, const LaborRule& rule,
                                        const LaborList& list, const Stretch& stretch) {
  __shared__ std::uint32_t total;
  __syncthreads();
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  const std::uint32_t own = __reduce_add_sync(
      kAllLanes, labor.count(rule, list, {stretch.first + threadIdx.x, stretch.end}, kThreads));
  if (lane_index() == 0) atomicAdd(&total, own);
  __syncthreads();
  return total;
}

template <typename Lists>
__global__ void __launch_bounds__(kThreads)
    measure_labor_hubs(const __grid_constant__ LaborQuery<Lists> labor, Count* counts, DeviceHubs hubs) {
  const LaborRule rule = labor.rule();
  for_each_hub(hubs, [&](Count i) {
    const LaborList list = labor.list(i);
    const std::uint32_t count = count_by_block(labor, rule, list, {0, list.range.degree});
    if (threadIdx.x == 0) counts[i] = count;
  });
}

template <typename Lists>
__global__ void __launch_bounds__(kThreads)
    measure_labor_giants(const __grid_constant__ LaborQuery<Lists> labor, Count* counts, DeviceGiants giants,
                         std::uint32_t* segment_counts) {
  const LaborRule rule = labor.rule();
  for_each_segment(
      giants, [&](Count i) { return labor.list(i).range.degree; },
      [&](Count i, const GiantSegment& segment) {
        const std::uint32_t count = count_by_block(labor, rule, labor.list(i), {segment.first, segment.end});
        if (threadIdx.x > 0) return;
        segment_counts[segment.number] = count;
        atomicAdd(reinterpret_cast<unsigned long long*>(counts + i), static_cast<unsigned long long>(count));
      });
}

// One warp per list. With `masks` of measure_labor() only the entries that are taken are read.
template <typename Id, typename Lists>
__global__ void __launch_bounds__(kThreads)
    choose_labor(const __grid_constant__ LaborQuery<Lists> labor, const DeviceRange* plan,
                 const __grid_constant__ PickWriter<Id, Lists> writer, const std::uint32_t* masks) {
  const LaborRule rule = labor.rule();
  for_each_node(*labor.query.frontier.count, [&](Count i) {
    const LaborList list = labor.list(plan[i]);
    const Count degree = list.range.degree;
    if (degree > kMostInWarp && !list.all) return;
    Count pick = writer.first_pick(i);
    if (list.all) {
      for (Count choice = lane_index(); choice < list.range.choices(); choice += kWarp)
        writer.put(pick + choice, labor.lists.entry_of(list.range, labor.query, choice));
      return;
    }
    std::uint32_t word = 0;
    if (masks == nullptr) {
      word = labor.mask(rule, list);
    } else if (lane_index() < kMaskWords) {
      word = masks[i * kMaskWords + lane_index()];
    }
    for (int r = 0; r * kWarp < degree; ++r) {
      const std::uint32_t lanes = __shfl_sync(kAllLanes, word, r);
      if ((lanes >> lane_index()) & 1u)
        writer.put(pick + __popc(lanes & lanes_below()), list.range.begin + r * kWarp + lane_index());
      pick += __popc(lanes);
    }
  });
}

template <typename Id, typename Lists>
__global__ void __launch_bounds__(kThreads)
    choose_labor_hubs(const __grid_constant__ LaborQuery<Lists> labor, const DeviceRange* plan,
                      const __grid_constant__ PickWriter<Id, Lists> writer, DeviceHubs hubs) {
  const LaborRule rule = labor.rule();
  for_each_hub(hubs, [&](Count i) {
    const LaborList list = labor.list(plan[i]);
    put_by_block(writer, list.range, {0, list.range.degree}, writer.first_pick(i),
                 [&](Count position) { return labor.takes(rule, list, position); });
  });
}

/// Sum of values[first .. end); all threads of a block get it.
__device__ std::uint32_t sum_by_block(const std::uint32_t* values, std::int32_t first, std::int32_t end) {
  __shared__ std::uint32_t total;
  __syncthreads();
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  std::uint32_t own = 0;
  for (std::int32_t v = first + static_cast<std::int32_t>(threadIdx.x); v < end; v += kThreads)
    own += values[v];
  own = __reduce_add_sync(kAllLanes, own);
  if (lane_index() == 0) atomicAdd(&total, own);
  __syncthreads();
  return total;
}

template <typename Id, typename Lists>
__global__ void __launch_bounds__(kThreads)
    choose_labor_giants(const __grid_constant__ LaborQuery<Lists> labor, const DeviceRange* plan,
                        const __grid_constant__ PickWriter<Id, Lists> writer, DeviceGiants giants,
                        const std::uint32_t* segment_counts) {
  const LaborRule rule = labor.rule();
  for_each_segment(
      giants, [&](Count i) { return plan[i].degree; },
      [&](Count i, const GiantSegment& segment) {
        const LaborList list = labor.list(plan[i]);
        const std::uint32_t before = sum_by_block(segment_counts, segment.first_number, segment.number);
        put_by_block(writer, list.range, {segment.first, segment.end}, writer.first_pick(i) + before,
                     [&](Count position) { return labor.takes(rule, list, position); });
      });
}

template <typename Id>
class LaborDeviceChooser final : public DevicePickChooser<Id> {
 public:
  LaborDeviceChooser(const store::GraphView& view, bool layer_dependent)
      : view_(view),
        layer_dependent_(layer_dependent),
        all_(make_uniform_device_chooser<Id>(view)),
        hubs_(view.device),
        giants_(view),
        segment_counts_(cuda::Memory::device, giants_.num_segments(), "segments of long lists", view.device) {
  }

  bool fills_strided(int) const override { return false; }
  bool bounded_by_fanout() const override { return false; }

  void measure(const DeviceQuery& query, DeviceRange* plan, Count* counts,
               const cuda::Stream& stream) override {
    if (query.fanout <= 0) return all_->measure(query, plan, counts, stream);
    const DeviceHubs hubs = hubs_.start(query.frontier.bound, stream);
    const DeviceGiants giants = giants_.start(stream);
    visit_lists(view_, [&]<typename Lists>(const Lists& lists) {
      const LaborQuery<Lists> labor{lists, query, layer_dependent_};
      measure_labor<<<blocks_for_warps(query.frontier.bound), kThreads, 0, stream.get()>>>(
          labor, plan, counts, hubs, giants, masks(query, stream));
      cuda::check_launch("measure_labor");
      measure_labor_hubs<<<kHubBlocks, kThreads, 0, stream.get()>>>(labor, counts, hubs);
      cuda::check_launch("measure_labor_hubs");
      if (!giants_.any()) return;
      measure_labor_giants<<<kHubBlocks, kThreads, 0, stream.get()>>>(labor, counts, giants,
                                                                      segment_counts_.data());
      cuda::check_launch("measure_labor_giants");
    });
  }

  void choose(const DeviceQuery& query, const DeviceRange* plan, const DevicePickOutput<Id>& out,
              const cuda::Stream& stream) override {
    if (query.fanout <= 0) return all_->choose(query, plan, out, stream);
    visit_lists(view_, [&]<typename Lists>(const Lists& lists) {
      const LaborQuery<Lists> labor{lists, query, layer_dependent_};
      const PickWriter<Id, Lists> writer{lists, out, query.fanout};
      choose_labor<<<blocks_for_warps(query.frontier.bound), kThreads, 0, stream.get()>>>(
          labor, plan, writer, masks(query, stream));
      cuda::check_launch("choose_labor");
      choose_labor_hubs<<<kHubBlocks, kThreads, 0, stream.get()>>>(labor, plan, writer, hubs_.hubs());
      cuda::check_launch("choose_labor_hubs");
      if (!giants_.any()) return;
      choose_labor_giants<<<kHubBlocks, kThreads, 0, stream.get()>>>(labor, plan, writer, giants_.giants(),
                                                                     segment_counts_.data());
      cuda::check_launch("choose_labor_giants");
    });
  }

 private:
  /// Room for the masks that measure() hands to choose(), or null.
  std::uint32_t* masks(const DeviceQuery& query, const cuda::Stream& stream) {
    if (query.frontier.bound > kMostMasks) return nullptr;
    reserve(masks_, cuda::Memory::device, query.frontier.bound * kMaskWords, 0, "taken neighbors", stream);
    return masks_.data();
  }

  const store::GraphView& view_;
  bool layer_dependent_;
  std::unique_ptr<DevicePickChooser<Id>> all_;  // for fanouts without a choice: -1 and 0
  HubList hubs_;
  GiantList giants_;
  cuda::Array<std::uint32_t> segment_counts_, masks_;
};

}  // namespace

template <typename Id>
std::unique_ptr<DevicePickChooser<Id>> make_labor_device_chooser(const store::GraphView& view,
                                                                 bool layer_dependent) {
  return std::make_unique<LaborDeviceChooser<Id>>(view, layer_dependent);
}
template std::unique_ptr<DevicePickChooser<std::int32_t>> make_labor_device_chooser(const store::GraphView&,
                                                                                    bool);
template std::unique_ptr<DevicePickChooser<std::int64_t>> make_labor_device_chooser(const store::GraphView&,
                                                                                    bool);

}  // namespace strata::sampling
