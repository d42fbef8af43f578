// SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include "choosers/lists_cuda.cuh"
#include "choosers/pick_lanes_cuda.cuh"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::sampling {
namespace {

constexpr Count kResidentWarps = 132 * 48;  // on an H200

template <typename Lists>
__device__ DeviceRange keyed_range(const Lists& lists, NodeId node, const DeviceQuery& query) {
  DeviceRange range = lists.range(node, query);
  if (query.fanout >= 0 && range.choices() > query.fanout) range.key = lists.choice_key(node, query);
  return range;
}

__device__ Count picks_of(const DeviceRange& range, int fanout) {
  return fanout >= 0 && range.choices() > fanout ? fanout : range.choices();
}

// One thread per node. Nodes come in few sorted runs, so that neighboring threads often share a sector of
// indptr.
template <typename Lists>
__global__ void measure_ranges(const __grid_constant__ Lists lists, DeviceQuery query, DeviceRange* plan,
                               Count* counts) {
  const DeviceFrontier& frontier = query.frontier;
  const Count num_nodes = *frontier.count;
  for (Count i = first_item<Count>(); i <= frontier.bound; i += item_stride<Count>()) {
    if (i >= num_nodes) {
      counts[i] = 0;
      continue;
    }
    plan[i] = keyed_range(lists, frontier.nodes[i], query);
    counts[i] = picks_of(plan[i], query.fanout);
  }
}

template <typename Lists, typename Id>
__device__ void put(const Lists& lists, Id neighbor, Count edge, const DevicePickOutput<Id>& out,
                    Count place) {
  if (place >= out.edge_bound) return;  // possible where a node has several lists
  out.neighbors[place] = neighbor;
  if (out.edge_ids != nullptr) out.edge_ids[place] = lists.edge_ids[edge];
  if (out.met != nullptr) mark(out.met, neighbor);
}

__device__ DeviceRange shuffle(const DeviceRange& range, unsigned from, bool excludes) {
  DeviceRange there{__shfl_sync(kAllLanes, range.begin, from), __shfl_sync(kAllLanes, range.degree, from),
                    __shfl_sync(kAllLanes, range.key, from)};
  if (!excludes) return there;
  there.first_excluded = __shfl_sync(kAllLanes, range.first_excluded, from);
  there.num_excluded = __shfl_sync(kAllLanes, range.num_excluded, from);
  there.origin = __shfl_sync(kAllLanes, range.origin, from);
  return there;
}

// A warp takes `nodes_per_warp` nodes. First one lane per node finds their lists; then one lane per pick
// chooses, for as many nodes at a time as fit, with several neighbors in flight per lane. A sampled edge
// costs one sector of the neighbor lists.
template <typename In, typename Id, typename Lists>
__global__ void __launch_bounds__(kThreads)
    choose_by_pick(const __grid_constant__ Lists lists, DeviceQuery query, DevicePickOutput<Id> out,
                   Count nodes_per_warp) {
  const PickLanes lanes(static_cast<unsigned>(query.fanout));
  const bool packed = out.offsets != nullptr;
  const Count num_nodes = *query.frontier.count;
  const Count end = packed ? num_nodes : query.frontier.bound;
  const Count warp = static_cast<Count>(blockIdx.x) * kWarpsPerBlock + threadIdx.x / kWarp;
  unsigned num_taken = 0;
  for (Count first = warp * nodes_per_warp; first < end;
       first += static_cast<Count>(gridDim.x) * kWarpsPerBlock * nodes_per_warp) {
    DeviceRange found{};
    Count offset = 0;
    const Count own = first + lane_index();
    if (lane_index() < nodes_per_warp && own < end) {
      if (own < num_nodes) found = keyed_range(lists, query.frontier.nodes[own], query);
      offset = packed ? out.offsets[own] : own * query.fanout;
      if (!packed) out.counts[own] = static_cast<std::int32_t>(picks_of(found, query.fanout));
    }
    const Count num_here = min(nodes_per_warp, num_nodes - first);
    for (Count at = 0; at < num_here; at += kInFlight * lanes.nodes) {
      Count edges[kInFlight], places[kInFlight];
      Id neighbors[kInFlight];
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        const auto node = static_cast<unsigned>(at) + i * lanes.nodes + lanes.node;
        const DeviceRange range = shuffle(found, node % kWarp, query.excluded != nullptr);
        places[i] = __shfl_sync(kAllLanes, offset, node % kWarp) + lanes.pick;
        const bool live = lanes.used() && node < num_here && lanes.pick < range.choices();
        edges[i] = lists.entry_of(range, query, position_of(lanes, range.choices(), range.key));
        if (!live) edges[i] = -1;
        neighbors[i] = live ? static_cast<Id>(lists.indices.template at<In>(edges[i])) : Id{0};
      }
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        if (edges[i] < 0) continue;
        put(lists, neighbors[i], edges[i], out, places[i]);
        ++num_taken;
      }
    }
  }
  if (packed) return;
  num_taken = __reduce_add_sync(kAllLanes, num_taken);
  if (lane_index() == 0 && num_taken > 0) {
    atomicAdd(reinterpret_cast<unsigned long long*>(out.num_edges),
              static_cast<unsigned long long>(num_taken));
  }
}

// One thread per sampled edge, which finds its node by search. It serves fanout -1, and fanouts that few
// nodes fill. A hub's list is spread over as many threads as it has edges.
template <typename Id, typename Lists>
__global__ void choose_by_edge(const __grid_constant__ Lists lists, DeviceQuery query,
                               const DeviceRange* plan, DevicePickOutput<Id> out) {
  const Count num_nodes = *query.frontier.count;
  const Count num_edges = out.offsets[num_nodes];
  for (Count e = first_item<Count>(); e < num_edges; e += item_stride<Count>()) {
    const Count i = list_of(out.offsets, num_nodes, e);
    const Count pick = e - out.offsets[i];
    const DeviceRange range = plan[i];
    if (pick >= range.choices()) continue;  // a pick of another machine's node
    Count position = pick;
    if (query.fanout >= 0 && range.choices() > query.fanout) {
      position = static_cast<Count>(
          Shuffle(static_cast<std::uint64_t>(range.choices()), range.key)(static_cast<std::uint64_t>(pick)));
    }
    const Count edge = lists.entry_of(range, query, position);
    put(lists, static_cast<Id>(lists.indices[edge]), edge, out, e);
  }
}

template <typename Id>
class UniformDeviceChooser final : public DevicePickChooser<Id> {
 public:
  explicit UniformDeviceChooser(const store::GraphView& view)
      : view_(view), near_(view.indices.size == 0 || cuda::is_device_memory(view.indices.data)) {}

  bool fills_strided(int fanout) const override { return fanout > 0 && fanout <= Subset::kMaxCount; }

  void measure(const DeviceQuery& query, DeviceRange* plan, Count* counts,
               const cuda::Stream& stream) override {
    visit_lists(view_, [&](const auto& lists) {
      measure_ranges<<<blocks_for(query.frontier.bound + 1), kThreads, 0, stream.get()>>>(lists, query, plan,
                                                                                          counts);
    });
    cuda::check_launch("measure_ranges");
  }

  void choose(const DeviceQuery& query, const DeviceRange* plan, const DevicePickOutput<Id>& out,
              const cuda::Stream& stream) override {
    if (query.fanout == 0) return;
    visit_lists(view_, [&](const auto& lists) {
      if (!fills_strided(query.fanout)) {
        choose_by_edge<<<blocks_for(out.edge_bound), kThreads, 0, stream.get()>>>(lists, query, plan, out);
        cuda::check_launch("choose_by_edge");
      } else if (view_.indices.wide) {
        launch_by_pick<std::int64_t>(lists, query, out, stream);
      } else {
        launch_by_pick<std::int32_t>(lists, query, out, stream);
      }
    });
  }

 private:
  template <typename In, typename Lists>
  void launch_by_pick(const Lists& lists, const DeviceQuery& query, const DevicePickOutput<Id>& out,
                      const cuda::Stream& stream) const {
    const Count at_once = kWarp / query.fanout;
    Count nodes_per_warp = std::clamp<Count>(query.frontier.bound / kResidentWarps, at_once, kWarp);
    if (!near_) nodes_per_warp = std::min<Count>(kWarp, at_once * kInFlight);
    const Count nodes_per_block = nodes_per_warp * kWarpsPerBlock;
    const auto blocks = static_cast<unsigned>(
        std::clamp<Count>((query.frontier.bound + nodes_per_block - 1) / nodes_per_block, 1,
                          4 * kResidentWarps / kWarpsPerBlock));
    choose_by_pick<In><<<blocks, kThreads, 0, stream.get()>>>(lists, query, out, nodes_per_warp);
    cuda::check_launch("choose_by_pick");
  }

  const store::GraphView& view_;
  // Lists off this GPU are read in the order of the nodes, a few per warp at a time. The reads in flight then
  // lie in few pages, because the GPU translates only a limited number of pages per second.
  bool near_;
};

}  // namespace

template <typename Id>
std::unique_ptr<DevicePickChooser<Id>> make_uniform_device_chooser(const store::GraphView& view) {
  return std::make_unique<UniformDeviceChooser<Id>>(view);
}
template std::unique_ptr<DevicePickChooser<std::int32_t>> make_uniform_device_chooser(
    const store::GraphView&);
template std::unique_ptr<DevicePickChooser<std::int64_t>> make_uniform_device_chooser(
    const store::GraphView&);

}  // namespace strata::sampling
