// SPDX-License-Identifier: Apache-2.0
#include "load/train_edges.hpp"

#include <algorithm>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

#include "strata/comm/machine.hpp"
#include "strata/plan/graph_shape.hpp"
#include "strata/util/error.hpp"
#include "strata/util/ranges.hpp"
#include "strata/util/threads.hpp"

namespace strata::store {
namespace {

constexpr Count kListsPerTask = 1 << 12;

std::vector<bool> marks_of(const GraphRegions& regions) {
  std::vector<bool> marks(at(regions.sizes.num_nodes));
  for (const NodeId node : regions.train.span()) marks[at(node)] = true;
  return marks;
}

/// Calls visit(list, its first entry, its end, the indices) for this rank's share of the lists, from all
/// threads.
template <typename Visit>
void visit_lists(const GraphRegions& regions, const comm::Machine& machine, ThreadPool& pool, Visit&& visit) {
  const Range lists = share_of({0, regions.sizes.num_lists()}, machine.rank(), machine.size());
  const Count* const indptr = regions.indptr.data();
  pool.parallel_for(lists.count, kListsPerTask, [&](Count begin, Count end) {
    regions.indices.visit([&](const auto* indices) {
      for (Count list = lists.first + begin; list < lists.first + end; ++list)
        visit(list, indptr[list], indptr[list + 1], indices);
    });
  });
}

/// The offsets of the lists that remain. `keeps`: of an edge's destination and source.
template <typename Keeps>
HostArray<Count> count_kept(const GraphRegions& regions, const Keeps& keeps, const comm::Machine& machine,
                            ThreadPool& pool) {
  const Count lists = regions.sizes.num_lists();
  const NodeId first = regions.sizes.first_list();
  auto indptr = HostArray<Count>::create(machine, lists + 1, name_of(plan::GraphTensor::indptr));
  machine.together([&] {
    if (machine.rank() == 0) std::ranges::fill(indptr.span(), Count{0});
  });
  machine.together([&] {
    visit_lists(regions, machine, pool, [&](Count list, Count begin, Count end, const auto* indices) {
      indptr.data()[list + 1] = std::count_if(indices + begin, indices + end,
                                              [&](auto neighbor) { return keeps(first + list, neighbor); });
    });
  });
  machine.together([&] {
    if (machine.rank() == 0) std::partial_sum(indptr.data(), indptr.data() + lists + 1, indptr.data());
  });
  return indptr;
}

/// Leaves only the edges that `keeps` returns true for; returns the lists of before. Collective.
template <typename Keeps>
WholeLists keep_edges(GraphRegions& regions, const Keeps& keeps, const comm::Machine& machine,
                      ThreadPool& pool) {
  if (regions.sizes.edge_ids) throw Error("edges that are left out have no ids here");
  HostArray<Count> indptr = count_kept(regions, keeps, machine, pool);
  plan::RegionSizes& sizes = regions.sizes;
  const NodeId first = sizes.first_list();
  const Count kept = indptr.data()[sizes.num_lists()];
  HostIds indices = HostIds::create(machine, kept, sizes.wide_nodes(), name_of(plan::GraphTensor::indices));
  auto weights =
      HostArray<float>::create(machine, sizes.weights ? kept : 0, name_of(plan::GraphTensor::weights));
  auto in_degrees = HostArray<std::int32_t>::create(machine, sizes.in_degrees ? sizes.num_nodes : 0,
                                                    name_of(plan::GraphTensor::in_degrees));
  machine.together([&] {
    indices.visit([&](auto* out) {
      visit_lists(regions, machine, pool, [&](Count list, Count begin, Count end, const auto* all) {
        Count place = indptr.data()[list];
        for (Count edge = begin; edge < end; ++edge) {
          if (!keeps(first + list, all[edge])) continue;
          if (sizes.weights) weights.data()[place] = regions.weights.data()[edge];
          using Id = std::remove_pointer_t<decltype(out)>;
          out[place++] = static_cast<Id>(all[edge]);
        }
      });
    });
  });
  sizes.local_edges = kept;
  return {.indptr = std::exchange(regions.indptr, std::move(indptr)),
          .indices = std::exchange(regions.indices, std::move(indices)),
          .weights = std::exchange(regions.weights, std::move(weights)),
          .in_degrees = std::exchange(regions.in_degrees, std::move(in_degrees))};
}

/// Sets the in-degrees of these nodes, and 0 for all others.
void set_degrees(const GraphRegions& regions, std::span<const NodeId> nodes, const comm::Machine& machine,
                 const comm::Communicator& world, bool with_loops) {
  const plan::RegionSizes& sizes = regions.sizes;
  if (!sizes.in_degrees) return;
  // Each rank counts for its share of its machine's own nodes, so that every node is counted once.
  const Range own = share_of({sizes.first_node, sizes.num_local}, machine.rank(), machine.size());
  std::vector<std::int64_t> degrees(nodes.size());
  regions.indices.visit([&](const auto* indices) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const NodeId node = nodes[i];
      if (node < own.first || node >= own.end()) continue;
      const Count* const list = regions.indptr.data() + (node - sizes.first_list());
      degrees[i] = list[1] - list[0];
      if (!with_loops) degrees[i] -= std::count(indices + list[0], indices + list[1], node);
    }
  });
  world.all_reduce(std::span(degrees));
  if (machine.rank() == 0) {
    std::ranges::fill(regions.in_degrees.span(), 0);
    for (std::size_t i = 0; i < nodes.size(); ++i)
      regions.in_degrees.data()[nodes[i]] = static_cast<std::int32_t>(degrees[i]);
  }
  machine.barrier();
}

}  // namespace

GraphView WholeLists::in_place_of(GraphView lists) const {
  lists.indptr = indptr.data();
  lists.indices = indices.view();
  if (weights.size() > 0) lists.weights = weights.data();
  if (in_degrees.size() > 0) lists.in_degrees = in_degrees.data();
  return lists;
}

std::int64_t WholeLists::bytes() const {
  return static_cast<std::int64_t>(indptr.span().size_bytes() + indices.bytes() +
                                   weights.span().size_bytes() + in_degrees.span().size_bytes());
}

WholeLists keep_train_edges(GraphRegions& regions, const comm::Machine& machine) {
  ThreadPool pool(comm::resources_of(machine).cores);
  const std::vector<bool> marks = marks_of(regions);
  return keep_edges(
      regions, [&](NodeId node, NodeId neighbor) { return marks[at(node)] && marks[at(neighbor)]; }, machine,
      pool);
}

HeldOutEdges hold_out_edges(GraphRegions& regions, const graph::EdgeSplit& split,
                            const comm::Machine& machine) {
  using graph::Split;
  ThreadPool pool(comm::resources_of(machine).cores);
  const IdSpan original_ids = regions.original_ids.view();
  const auto split_of = [&](NodeId node, NodeId neighbor) {
    return split.of(original_ids[node], original_ids[neighbor]);
  };
  const WholeLists whole = keep_edges(
      regions, [&](NodeId node, NodeId neighbor) { return split_of(node, neighbor) == Split::train; },
      machine, pool);
  const plan::RegionSizes& sizes = regions.sizes;
  const Range own = share_of({sizes.first_node, sizes.num_local}, machine.rank(), machine.size());
  HeldOutEdges held;
  machine.together([&] {
    whole.indices.visit([&](const auto* indices) {
      for (NodeId node = own.first; node < own.end(); ++node) {
        const Count* const list = whole.indptr.data() + (node - sizes.first_list());
        for (Count entry = list[0]; entry < list[1]; ++entry) {
          const auto source = static_cast<NodeId>(indices[entry]);
          const Split in = split_of(node, source);
          if (in != Split::train) (in == Split::valid ? held.valid : held.test).push_back({source, node});
        }
      }
    });
  });
  machine.barrier();
  return held;
}

void count_degrees(const GraphRegions& regions, const comm::Machine& machine, const comm::Communicator& world,
                   bool with_loops) {
  std::vector<NodeId> nodes(at(regions.sizes.in_degrees ? regions.sizes.num_nodes : 0));
  std::iota(nodes.begin(), nodes.end(), NodeId{0});
  set_degrees(regions, nodes, machine, world, with_loops);
}

void count_train_degrees(const GraphRegions& regions, const comm::Machine& machine,
                         const comm::Communicator& world, bool with_loops) {
  set_degrees(regions, regions.train.span(), machine, world, with_loops);
}

}  // namespace strata::store
