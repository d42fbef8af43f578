// SPDX-License-Identifier: Apache-2.0
#include "load/train_edges.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "strata/comm/machine.hpp"
#include "strata/graph/relation_ranges.hpp"
#include "strata/plan/graph_shape.hpp"
#include "strata/util/error.hpp"
#include "strata/util/ranges.hpp"
#include "strata/util/threads.hpp"

namespace strata::store {
namespace {

constexpr Count kListsPerTask = 1 << 12;

/// The nodes that inductive training sees.
std::vector<bool> seen_nodes(const GraphRegions& regions, const graph::GraphTypes& types) {
  const Count num_nodes = regions.sizes.num_nodes;
  const IdSpan original_ids = regions.original_ids.view();
  std::vector<bool> seen(at(num_nodes)), has_training_nodes(types.nodes.size(), types.nodes.size() == 1);
  for (const NodeId node : regions.train.span()) {
    seen[at(node)] = true;
    has_training_nodes[graph::type_of_node(types, original_ids[node])] = true;
  }
  if (std::ranges::all_of(has_training_nodes, std::identity())) return seen;
  for (NodeId node = 0; node < num_nodes; ++node)
    if (!has_training_nodes[graph::type_of_node(types, original_ids[node])]) seen[at(node)] = true;
  return seen;
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

/// The offsets of the lists that remain. `keeps`: of an edge's destination and source, and its position.
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
      Count kept = 0;
      for (Count edge = begin; edge < end; ++edge) kept += keeps(first + list, indices[edge], edge);
      indptr.data()[list + 1] = kept;
    });
  });
  machine.together([&] {
    if (machine.rank() == 0) std::partial_sum(indptr.data(), indptr.data() + lists + 1, indptr.data());
  });
  return indptr;
}

/// Tells where the sublists of a list begin among the edges that remain; one that lost all is empty.
class SublistMove {
 public:
  SublistMove(const GraphRegions& regions, Count* begins, Count list) : begins_(begins) {
    if (regions.sizes.num_relations == 1) return;
    old_ = regions.sublist_begins.data();
    next_ = regions.sublist_first.data()[list];
    end_ = regions.sublist_first.data()[list + 1];
  }
  /// An edge, or the end of the list, comes to lie at `place`.
  void reach(Count edge, Count place) {
    while (next_ < end_ && old_[next_] <= edge) begins_[next_++] = place;
  }

 private:
  Count* begins_;
  const Count* old_ = nullptr;
  Count next_ = 0, end_ = 0;
};

/// Leaves only the edges that `keeps` returns true for; returns the lists of before. Collective.
template <typename Keeps>
WholeLists keep_edges(GraphRegions& regions, const Keeps& keeps, const comm::Machine& machine,
                      ThreadPool& pool) {
  HostArray<Count> indptr = count_kept(regions, keeps, machine, pool);
  plan::RegionSizes& sizes = regions.sizes;
  const NodeId first = sizes.first_list();
  const Count kept = indptr.data()[sizes.num_lists()];
  HostIds indices = HostIds::create(machine, kept, sizes.wide_nodes(), name_of(plan::GraphTensor::indices));
  auto begins =
      HostArray<Count>::create(machine, sizes.num_relations > 1 ? sizes.sublists + 1 : 0, "sublists");
  auto weights =
      HostArray<float>::create(machine, sizes.weights ? kept : 0, name_of(plan::GraphTensor::weights));
  auto edge_ids =
      HostArray<EdgeId>::create(machine, sizes.edge_ids ? kept : 0, name_of(plan::GraphTensor::edge_ids));
  auto in_degrees = HostArray<std::int32_t>::create(machine, sizes.in_degrees ? sizes.num_nodes : 0,
                                                    name_of(plan::GraphTensor::in_degrees));
  machine.together([&] {
    indices.visit([&](auto* out) {
      visit_lists(regions, machine, pool, [&](Count list, Count begin, Count end, const auto* all) {
        Count place = indptr.data()[list];
        SublistMove sublists(regions, begins.data(), list);
        for (Count edge = begin; edge < end; ++edge) {
          sublists.reach(edge, place);
          if (!keeps(first + list, all[edge], edge)) continue;
          if (sizes.edge_ids) edge_ids.data()[place] = regions.edge_ids.data()[edge];
          if (sizes.weights) weights.data()[place] = regions.weights.data()[edge];
          using Id = std::remove_pointer_t<decltype(out)>;
          out[place++] = static_cast<Id>(all[edge]);
        }
        sublists.reach(end, place);
      });
    });
  });
  machine.together([&] {
    if (machine.rank() == 0 && sizes.num_relations > 1) begins.data()[sizes.sublists] = kept;
  });
  sizes.local_edges = kept;
  return {.indptr = std::exchange(regions.indptr, std::move(indptr)),
          .indices = std::exchange(regions.indices, std::move(indices)),
          .edge_ids = std::exchange(regions.edge_ids, std::move(edge_ids)),
          .weights = std::exchange(regions.weights, std::move(weights)),
          .sublist_begins = std::exchange(regions.sublist_begins, std::move(begins)),
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

using graph::Split;
using Triple = std::array<std::int64_t, 3>;  // source, destination and edge id

EdgeId id_at(const HostArray<EdgeId>& ids, Count edge) { return ids.size() > 0 ? ids.data()[edge] : -1; }

/// The edges that a split holds out of a machine's lists.
class HeldOut {
 public:
  HeldOut(const GraphRegions& regions, const graph::EdgeSplit& split, const graph::Manifest& manifest,
          const comm::Machine& machine)
      : original_ids_(regions.original_ids.view()),
        sizes_(regions.sizes),
        split_(split),
        undirected_(manifest.undirected),
        relations_(manifest.types),
        own_(share_of({regions.sizes.first_node, regions.sizes.num_local}, machine.rank(), machine.size())) {}

  Split split_of(NodeId node, NodeId neighbor, EdgeId edge) const {
    const int relation = relations_.size() == 1 ? 0 : relations_.relation_of(edge);
    return split_.draws(relation) ? split_.of(original_ids_[node], original_ids_[neighbor]) : Split::train;
  }

  /// Appends those of a split to this rank's share of the machine's own nodes; of both directions of an undirected
  /// edge one.
  void list(const WholeLists& whole, Split split, std::string& triples) const {
    whole.indices.visit([&](const auto* indices) {
      for (NodeId node = own_.first; node < own_.end(); ++node) {
        const Count* const list = whole.indptr.data() + (node - sizes_.first_list());
        for (Count entry = list[0]; entry < list[1]; ++entry) {
          const auto source = static_cast<NodeId>(indices[entry]);
          const EdgeId edge = id_at(whole.edge_ids, entry);
          const Triple triple{original_ids_[source], original_ids_[node], edge};
          if (split_of(node, source, edge) != split || (undirected_ && triple[0] > triple[1])) continue;
          triples.append(reinterpret_cast<const char*>(triple.data()), sizeof(Triple));
        }
      }
    });
  }

 private:
  IdSpan original_ids_;
  plan::RegionSizes sizes_;  // of the lists' nodes, which stay
  const graph::EdgeSplit& split_;
  bool undirected_;
  graph::RelationRanges relations_;
  Range own_;
};

/// The edges of all ranks, by their ids, in memory of the machine. Collective over `world`.
HostArray<Count> all_edges(const std::string& mine, const comm::Machine& machine,
                           const comm::Communicator& world, const char* name) {
  std::string all;
  for (const std::string& of_rank : world.all_gather(mine)) all += of_rank;
  auto edges = HostArray<Count>::create(machine, static_cast<Count>(all.size() / sizeof(Count)), name);
  if (machine.rank() == 0) {
    std::vector<Triple> triples(all.size() / sizeof(Triple));
    std::memcpy(static_cast<void*>(triples.data()), all.data(), all.size());
    std::ranges::sort(triples, {}, [](const Triple& t) { return Triple{t[2], t[0], t[1]}; });
    std::memcpy(static_cast<void*>(edges.data()), static_cast<const void*>(triples.data()), all.size());
  }
  machine.barrier();
  return edges;
}

}  // namespace

GraphView WholeLists::in_place_of(GraphView lists) const {
  lists.indptr = indptr.data();
  lists.indices = indices.view();
  lists.edge_ids = {.data = edge_ids.data(), .size = edge_ids.size(), .wide = true};
  if (weights.size() > 0) lists.weights = weights.data();
  if (sublist_begins.size() > 0) lists.sublists.begins = sublist_begins.data();
  if (in_degrees.size() > 0) lists.in_degrees = in_degrees.data();
  return lists;
}

std::int64_t WholeLists::bytes() const {
  return static_cast<std::int64_t>(indptr.span().size_bytes() + indices.bytes() +
                                   edge_ids.span().size_bytes() + weights.span().size_bytes() +
                                   sublist_begins.span().size_bytes() + in_degrees.span().size_bytes());
}

WholeLists keep_train_edges(GraphRegions& regions, const graph::GraphTypes& types,
                            const comm::Machine& machine) {
  ThreadPool pool(comm::resources_of(machine).cores);
  const std::vector<bool> seen = seen_nodes(regions, types);
  return keep_edges(
      regions, [&](NodeId node, NodeId neighbor, Count) { return seen[at(node)] && seen[at(neighbor)]; },
      machine, pool);
}

void hold_out_edges(GraphRegions& regions, const graph::EdgeSplit& split, const graph::Manifest& manifest,
                    const comm::Machine& machine, const comm::Communicator& world) {
  ThreadPool pool(comm::resources_of(machine).cores);
  const HeldOut held(regions, split, manifest, machine);
  std::string valid, test;
  world.together([&] {
    const HostArray<EdgeId>& ids = regions.edge_ids;
    const WholeLists whole = keep_edges(
        regions,
        [&](NodeId node, NodeId neighbor, Count edge) {
          return held.split_of(node, neighbor, id_at(ids, edge)) == Split::train;
        },
        machine, pool);
    held.list(whole, Split::valid, valid);
    held.list(whole, Split::test, test);
    machine.barrier();
  });
  regions.valid_edges = all_edges(valid, machine, world, "validation edges");
  regions.test_edges = all_edges(test, machine, world, "test edges");
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
