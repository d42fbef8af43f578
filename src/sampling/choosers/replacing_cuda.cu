// SPDX-License-Identifier: Apache-2.0
#include "choosers/choice_rules.hpp"
#include "choosers/lists_cuda.cuh"
#include "strata/cuda/stream.hpp"

namespace strata::sampling {
namespace {

template <typename Lists>
struct ReplacingQuery {
  Lists lists;
  DeviceQuery query;

  __device__ DeviceRange keyed_range(Count i) const {
    const NodeId node = query.frontier.nodes[i];
    DeviceRange range = lists.range(node, query);
    if (range.choices() > 0) range.key = lists.choice_key(node, query);
    return range;
  }
};

template <typename Lists>
__global__ void __launch_bounds__(kThreads)
    measure_replacing(const __grid_constant__ ReplacingQuery<Lists> replacing, DeviceRange* plan,
                      Count* counts) {
  const DeviceFrontier& frontier = replacing.query.frontier;
  const Count num_nodes = *frontier.count;
  clear_rest(counts, num_nodes, frontier.bound + 1);
  for (Count i = first_item<Count>(); i < num_nodes; i += item_stride<Count>()) {
    plan[i] = replacing.keyed_range(i);
    counts[i] = plan[i].choices() > 0 ? replacing.query.fanout : 0;
  }
}

// One thread per pick; a sampled edge costs a sector of the neighbor lists.
template <typename Id, typename Lists>
__global__ void __launch_bounds__(kThreads)
    choose_replacing(const __grid_constant__ ReplacingQuery<Lists> replacing, const DeviceRange* plan,
                     const __grid_constant__ PickWriter<Id, Lists> writer) {
  const DeviceFrontier& frontier = replacing.query.frontier;
  const Count num_nodes = *frontier.count, fanout = replacing.query.fanout;
  if (writer.strided()) clear_rest(writer.out.counts, num_nodes, frontier.bound);
  std::uint32_t num_picks = 0;
  for (Count t = first_item<Count>(); t < num_nodes * fanout; t += item_stride<Count>()) {
    const Count i = t / fanout, pick = t - i * fanout;
    const DeviceRange range = plan != nullptr ? plan[i] : replacing.keyed_range(i);
    if (writer.strided() && pick == 0)
      writer.out.counts[i] = range.choices() > 0 ? static_cast<std::int32_t>(fanout) : 0;
    if (range.choices() > 0) {
      const std::uint64_t word = keyed_word(range.key, static_cast<std::uint64_t>(pick));
      const auto choice = static_cast<Count>(below(word, static_cast<std::uint64_t>(range.choices())));
      writer.put(writer.first_pick(i) + pick, replacing.lists.entry_of(range, replacing.query, choice));
      ++num_picks;
    }
  }
  if (writer.strided()) add_to_total(writer.out.num_edges, num_picks);
}

template <typename Id>
class ReplacingDeviceChooser final : public DevicePickChooser<Id> {
 public:
  explicit ReplacingDeviceChooser(const store::GraphView& view)
      : view_(view), all_(make_uniform_device_chooser<Id>(view)) {}

  bool fills_strided(int fanout) const override { return fanout > 0 && fanout <= kMostStride; }

  void measure(const DeviceQuery& query, DeviceRange* plan, Count* counts,
               const cuda::Stream& stream) override {
    if (query.fanout <= 0) return all_->measure(query, plan, counts, stream);
    visit_lists(view_, [&]<typename Lists>(const Lists& lists) {
      measure_replacing<<<blocks_for(query.frontier.bound), kThreads, 0, stream.get()>>>(
          ReplacingQuery<Lists>{lists, query}, plan, counts);
    });
    cuda::check_launch("measure_replacing");
  }

  void choose(const DeviceQuery& query, const DeviceRange* plan, const DevicePickOutput<Id>& out,
              const cuda::Stream& stream) override {
    if (query.fanout <= 0) return all_->choose(query, plan, out, stream);
    visit_lists(view_, [&]<typename Lists>(const Lists& lists) {
      choose_replacing<<<blocks_for(query.frontier.bound * query.fanout), kThreads, 0, stream.get()>>>(
          ReplacingQuery<Lists>{lists, query}, plan, PickWriter<Id, Lists>{lists, out, query.fanout});
    });
    cuda::check_launch("choose_replacing");
  }

 private:
  const store::GraphView& view_;
  std::unique_ptr<DevicePickChooser<Id>> all_;  // for fanouts without a choice: -1 and 0
};

}  // namespace

template <typename Id>
std::unique_ptr<DevicePickChooser<Id>> make_replacing_device_chooser(const store::GraphView& view) {
  return std::make_unique<ReplacingDeviceChooser<Id>>(view);
}
template std::unique_ptr<DevicePickChooser<std::int32_t>> make_replacing_device_chooser(
    const store::GraphView&);
template std::unique_ptr<DevicePickChooser<std::int64_t>> make_replacing_device_chooser(
    const store::GraphView&);

}  // namespace strata::sampling
