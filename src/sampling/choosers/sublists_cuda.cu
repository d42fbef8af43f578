// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "choosers/lists_cuda.cuh"
#include "choosers/pick_chooser_cuda.hpp"
#include "choosers/sublists.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::sampling {
namespace {

/// The sublists of a query's nodes, in the order of the nodes. A node of another machine has an entry without
/// a list, -1, so that its picks lie between those of the others.
struct Entries {
  Count* first = nullptr;         ///< [nodes + 1] each node's first entry; the last is their number
  NodeId* lists = nullptr;        ///< [entries] numbers of sublists
  std::int32_t* nodes = nullptr;  ///< [entries] places of their nodes in the query
  Count* picks = nullptr;         ///< [entries + 1] picks before each entry
  Count bound = 0;                ///< at least the number of entries
};

struct ListedNodes {
  store::SublistsView sublists;
  NodeId first_node = 0;
  Count num_local = 0;
  DeviceFrontier frontier;

  __device__ Count local(Count i) const { return frontier.nodes[i] - first_node; }
  __device__ bool owns(Count i) const { return local(i) >= 0 && local(i) < num_local; }
};

__global__ void count_entries(ListedNodes nodes, Entries entries) {
  const Count num_nodes = *nodes.frontier.count;
  for (Count i = first_item<Count>(); i <= nodes.frontier.bound; i += item_stride<Count>()) {
    Count count = 0;
    if (i < num_nodes) {
      const Count local = nodes.local(i);
      count = nodes.owns(i) ? nodes.sublists.first[local + 1] - nodes.sublists.first[local] : 1;
    }
    entries.first[i] = count;
  }
}

// One thread per entry, which finds its node by search.
__global__ void list_entries(ListedNodes nodes, Entries entries) {
  const Count num_nodes = *nodes.frontier.count, size = entries.first[num_nodes];
  for (Count e = first_item<Count>(); e < size; e += item_stride<Count>()) {
    const Count i = list_of(entries.first, num_nodes, e);
    entries.lists[e] =
        nodes.owns(i) ? nodes.sublists.first[nodes.local(i)] + e - entries.first[i] : NodeId{-1};
    entries.nodes[e] = static_cast<std::int32_t>(i);
  }
}

__global__ void add_counts(const Count* counts, Count size, Count* sums) {
  for (Count e = first_item<Count>(); e < size; e += item_stride<Count>()) sums[e] += counts[e];
}

__global__ void count_of_nodes(ListedNodes nodes, Entries entries, Count* counts) {
  const Count num_nodes = *nodes.frontier.count;
  for (Count i = first_item<Count>(); i <= nodes.frontier.bound; i += item_stride<Count>())
    counts[i] = i < num_nodes ? entries.picks[entries.first[i + 1]] - entries.picks[entries.first[i]] : 0;
}

/// Sets where the picks of each entry begin; those of its node begin at offsets[node].
__global__ void offset_entries(ListedNodes nodes, Entries entries, const Count* offsets, Count* of_entries) {
  const Count num_nodes = *nodes.frontier.count, size = entries.first[num_nodes];
  for (Count e = first_item<Count>(); e <= size; e += item_stride<Count>()) {
    const Count i = e < size ? entries.nodes[e] : num_nodes;
    of_entries[e] = offsets[i] + (e < size ? entries.picks[e] - entries.picks[entries.first[i]] : 0);
  }
}

template <typename Id>
class SublistDeviceChooser final : public DevicePickChooser<Id> {
 public:
  SublistDeviceChooser(const store::GraphView& view, const SamplerOptions& options)
      : view_(view), hops_(fanout_groups(options, view.sublists.num_relations)), scan_(view.device) {
    copy_groups();
    views_.reserve(most_groups(hops_));
    for (std::size_t group = 0; group < most_groups(hops_); ++group) {
      views_.push_back(view_of_sublists(view, groups_.data(), group));
      choosers_.push_back(make_device_chooser<Id>(views_.back(), options));
    }
    plans_.resize(views_.size());
  }

  bool fills_strided(int) const override { return false; }
  bool bounded_by_fanout() const override { return false; }

  void measure(const DeviceQuery& query, DeviceRange*, Count* counts, const cuda::Stream& stream) override {
    const ListedNodes nodes = nodes_of(query);
    list(nodes, stream);
    const Count size = entries_.bound + 1;
    cuda::fill_async(entries_.picks, 0, at(size) * sizeof(Count), stream);
    for (std::size_t group = 0; group < num_groups(query); ++group) {
      reserve(plans_[group], cuda::Memory::device, entries_.bound, 0, "ranges of sublists", stream);
      chooser_of(group, query)
          .measure(query_of(group, query), plans_[group].data(), list_counts_.data(), stream);
      add_counts<<<blocks_for(size), kThreads, 0, stream.get()>>>(list_counts_.data(), size, entries_.picks);
      cuda::check_launch("add_counts");
    }
    scan_.exclusive(entries_.picks, size, stream);
    count_of_nodes<<<blocks_for(query.frontier.bound + 1), kThreads, 0, stream.get()>>>(nodes, entries_,
                                                                                        counts);
    cuda::check_launch("count_of_nodes");
  }

  void choose(const DeviceQuery& query, const DeviceRange*, const DevicePickOutput<Id>& out,
              const cuda::Stream& stream) override {
    offset_entries<<<blocks_for(entries_.bound + 1), kThreads, 0, stream.get()>>>(
        nodes_of(query), entries_, out.offsets, list_counts_.data());
    cuda::check_launch("offset_entries");
    DevicePickOutput<Id> of_lists = out;
    of_lists.offsets = list_counts_.data();
    for (std::size_t group = 0; group < num_groups(query); ++group)
      chooser_of(group, query).choose(query_of(group, query), plans_[group].data(), of_lists, stream);
  }

 private:
  std::size_t num_groups(const DeviceQuery& query) const { return hops_[query.hop].fanouts.size(); }

  ListedNodes nodes_of(const DeviceQuery& query) const {
    return {view_.sublists, view_.first_node, view_.num_local, query.frontier};
  }

  DeviceQuery query_of(std::size_t group, const DeviceQuery& query) const {
    DeviceQuery of_lists = query;
    of_lists.frontier = {entries_.lists, entries_.first + query.frontier.bound, entries_.bound};
    of_lists.fanout = hops_[query.hop].fanouts[group];
    return of_lists;
  }

  DevicePickChooser<Id>& chooser_of(std::size_t group, const DeviceQuery& query) {
    views_[group].keys.groups = groups_.data() + at(view_.sublists.num_relations) * query.hop;
    return *choosers_[group];
  }

  /// Copies the groups of all hops' relations to the device.
  void copy_groups() {
    std::vector<std::uint8_t> all;
    for (const FanoutGroups& hop : hops_) all.insert(all.end(), hop.of.begin(), hop.of.end());
    groups_ = {cuda::Memory::device, std::ssize(all), "groups of relations", view_.device};
    const cuda::Stream stream(view_.device);
    cuda::copy_async(groups_.data(), all.data(), all.size(), stream);
    stream.synchronize();
  }

  void list(const ListedNodes& nodes, const cuda::Stream& stream) {
    const Count bound = nodes.frontier.bound;
    reserve(first_, cuda::Memory::device, bound + 1, 0, "sublists of a hop", stream);
    entries_.first = first_.data();
    count_entries<<<blocks_for(bound + 1), kThreads, 0, stream.get()>>>(nodes, entries_);
    cuda::check_launch("count_entries");
    scan_.exclusive(entries_.first, bound + 1, stream);
    const Count most = most_entries(nodes.frontier);
    make_room(most, stream);
    entries_ = {first_.data(), lists_.data(), list_nodes_.data(), list_picks_.data(), most};
    list_entries<<<blocks_for(most), kThreads, 0, stream.get()>>>(nodes, entries_);
    cuda::check_launch("list_entries");
  }

  Count most_entries(const DeviceFrontier& frontier) const {
    const Count most = frontier.bound * std::max<Count>(1, view_.sublists.most_per_node);
    return frontier.distinct ? std::min(most, view_.sublists.count + frontier.bound) : most;
  }

  void make_room(Count entries, const cuda::Stream& stream) {
    reserve(lists_, cuda::Memory::device, entries, 0, "sublists of a hop", stream);
    reserve(list_nodes_, cuda::Memory::device, entries, 0, "sublists of a hop", stream);
    reserve(list_picks_, cuda::Memory::device, entries + 1, 0, "sublists of a hop", stream);
    reserve(list_counts_, cuda::Memory::device, entries + 1, 0, "sublists of a hop", stream);
  }

  const store::GraphView& view_;
  std::vector<FanoutGroups> hops_;
  cuda::Array<std::uint8_t> groups_;     // [hops, relations]
  std::vector<store::GraphView> views_;  // by group, as are the choosers, which refer to them
  std::vector<std::unique_ptr<DevicePickChooser<Id>>> choosers_;
  std::vector<cuda::Array<DeviceRange>> plans_;
  DeviceScan scan_;
  Entries entries_;  // of the last query that was measured
  cuda::Array<Count> first_, list_picks_, list_counts_;
  cuda::Array<NodeId> lists_;
  cuda::Array<std::int32_t> list_nodes_;
};

}  // namespace

template <typename Id>
std::unique_ptr<DevicePickChooser<Id>> make_sublist_device_chooser(const store::GraphView& view,
                                                                   const SamplerOptions& options) {
  return std::make_unique<SublistDeviceChooser<Id>>(view, options);
}
template std::unique_ptr<DevicePickChooser<std::int32_t>> make_sublist_device_chooser(const store::GraphView&,
                                                                                      const SamplerOptions&);
template std::unique_ptr<DevicePickChooser<std::int64_t>> make_sublist_device_chooser(const store::GraphView&,
                                                                                      const SamplerOptions&);

}  // namespace strata::sampling
