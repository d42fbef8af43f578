#include <limits>
#include <type_traits>

#include "launch_cuda.cuh"
#include "slot_chooser_cuda.hpp"

namespace strata::sampling {
namespace {

constexpr int kMaxSlotFanout =
    64;  // beyond, one thread a slot of every node would leave most threads without work

template <typename Original>
struct MeasureInput {
  DeviceQuery query;
  NodeId first_node;
  Count num_local;
  const Count* indptr;
  const Original* original_ids;
};

/// The graph's arrays with their types known.
template <typename In, typename Edge>
struct TypedLists {
  const In* indices;
  const Edge* edge_ids;
};

__device__ bool takes_all(const DeviceRange& range, int fanout) {
  return fanout < 0 || range.degree <= fanout;
}

// One thread a node. Nodes come in few sorted runs, so that neighbouring threads often share a sector of
// indptr.
template <typename Original>
__global__ void measure_ranges(MeasureInput<Original> in, DeviceRange* plan, Count* counts) {
  const DeviceFrontier& frontier = in.query.frontier;
  const Count num_nodes = *frontier.count;
  for (Count i = first_item<Count>(); i <= frontier.bound; i += item_stride<Count>()) {
    if (i >= num_nodes) {
      counts[i] = 0;
      continue;
    }
    const NodeId node = frontier.nodes[i];
    const Count local = node - in.first_node;
    DeviceRange range{};
    if (local >= 0 && local < in.num_local) {
      range.begin = in.indptr[local];
      range.degree = in.indptr[local + 1] - range.begin;
      if (!takes_all(range, in.query.fanout)) {
        range.key = node_key(in.query.key, RandomUse::sample, in.query.hop, in.original_ids[node]);
      }
    }
    plan[i] = range;
    counts[i] = takes_all(range, in.query.fanout) ? range.degree : in.query.fanout;
  }
}

template <typename Id, typename In, typename Edge>
__device__ void take(const TypedLists<In, Edge>& lists, Count edge, const DeviceSlotOutput<Id>& out,
                     Count slot) {
  out.neighbors[slot] = static_cast<Id>(lists.indices[edge]);
  if (out.edge_ids != nullptr) out.edge_ids[slot] = lists.edge_ids[edge];
}

__device__ Count position_of_slot(const DeviceRange& range, Count slot, int fanout) {
  if (takes_all(range, fanout)) return slot;
  return static_cast<Count>(
      Shuffle(static_cast<std::uint64_t>(range.degree), range.key)(static_cast<std::uint64_t>(slot)));
}

// One thread a slot of every node, used or not: a plan entry is shared by the fanout's threads, and a sampled
// edge costs one sector of the neighbour lists.
template <typename Id, typename In, typename Edge, typename Index>
__global__ void choose_by_slot(TypedLists<In, Edge> lists, DeviceQuery query, const DeviceRange* plan,
                               DeviceSlotOutput<Id> out) {
  const auto fanout = static_cast<Index>(query.fanout);
  const Index num_slots = static_cast<Index>(*query.frontier.count) * fanout;
  for (Index t = first_item<Index>(); t < num_slots; t += item_stride<Index>()) {
    const Index i = t / fanout;
    const auto slot = static_cast<Count>(t - i * fanout);
    const DeviceRange range = plan[i];
    if (slot >= range.degree) continue;
    take(lists, range.begin + position_of_slot(range, slot, query.fanout), out, out.offsets[i] + slot);
  }
}

// One thread a sampled edge, which finds its node by search: for all neighbours, and fanouts that few nodes
// fill. A hub's list is spread over as many threads as it has edges.
template <typename Id, typename In, typename Edge>
__global__ void choose_by_edge(TypedLists<In, Edge> lists, DeviceQuery query, const DeviceRange* plan,
                               DeviceSlotOutput<Id> out) {
  const Count num_nodes = *query.frontier.count;
  const Count num_edges = out.offsets[num_nodes];
  for (Count e = first_item<Count>(); e < num_edges; e += item_stride<Count>()) {
    const Count i = list_of(out.offsets, num_nodes, e);
    const Count slot = e - out.offsets[i];
    const DeviceRange range = plan[i];
    if (slot >= range.degree) continue;  // the slots of another machine's node
    take(lists, range.begin + position_of_slot(range, slot, query.fanout), out, e);
  }
}

template <typename Id>
class UniformDeviceChooser final : public DeviceSlotChooser<Id> {
 public:
  explicit UniformDeviceChooser(const store::GraphView& view) : view_(view) {}

  void measure(const DeviceQuery& query, DeviceRange* plan, Count* counts,
               const cuda::Stream& stream) override {
    view_.original_ids.visit([&](const auto* original_ids) {
      const MeasureInput<std::remove_cvref_t<decltype(*original_ids)>> in{
          query, view_.first_node, view_.num_local, view_.indptr, original_ids};
      measure_ranges<<<blocks_for(query.frontier.bound + 1), kThreads, 0, stream.get()>>>(in, plan, counts);
      cuda::check_launch("measure_ranges");
    });
  }

  void choose(const DeviceQuery& query, const DeviceRange* plan, const DeviceSlotOutput<Id>& out,
              const cuda::Stream& stream) override {
    view_.indices.visit([&](const auto* indices) {
      view_.edge_ids.visit([&](const auto* edge_ids) {
        const TypedLists<std::remove_cvref_t<decltype(*indices)>, std::remove_cvref_t<decltype(*edge_ids)>>
            lists{indices, edge_ids};
        launch_choose(lists, query, plan, out, stream);
      });
    });
  }

 private:
  template <typename In, typename Edge>
  static void launch_choose(const TypedLists<In, Edge>& lists, const DeviceQuery& query,
                            const DeviceRange* plan, const DeviceSlotOutput<Id>& out,
                            const cuda::Stream& stream) {
    const bool by_slot = query.fanout >= 0 && query.fanout <= kMaxSlotFanout;
    const Count bound = by_slot ? query.frontier.bound * query.fanout : out.edge_bound;
    const unsigned blocks = blocks_for(bound);
    if (!by_slot) {
      choose_by_edge<Id, In, Edge><<<blocks, kThreads, 0, stream.get()>>>(lists, query, plan, out);
    } else if (bound <=
               std::numeric_limits<std::int32_t>::max()) {  // 32-bit division is several times faster
      choose_by_slot<Id, In, Edge, std::uint32_t>
          <<<blocks, kThreads, 0, stream.get()>>>(lists, query, plan, out);
    } else {
      choose_by_slot<Id, In, Edge, std::uint64_t>
          <<<blocks, kThreads, 0, stream.get()>>>(lists, query, plan, out);
    }
    cuda::check_launch("choose slots");
  }

  const store::GraphView& view_;
};

}  // namespace

template <typename Id>
std::unique_ptr<DeviceSlotChooser<Id>> make_uniform_device_chooser(const store::GraphView& view) {
  return std::make_unique<UniformDeviceChooser<Id>>(view);
}
template std::unique_ptr<DeviceSlotChooser<std::int32_t>> make_uniform_device_chooser(
    const store::GraphView&);
template std::unique_ptr<DeviceSlotChooser<std::int64_t>> make_uniform_device_chooser(
    const store::GraphView&);

}  // namespace strata::sampling
