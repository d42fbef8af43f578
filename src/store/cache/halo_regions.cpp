// SPDX-License-Identifier: Apache-2.0
#include "cache/halo_regions.hpp"

#include <span>
#include <utility>

#include "load/sublist_share.hpp"
#include "strata/util/ranges.hpp"

namespace strata::store {

namespace {

/// Finds the sublists of a halo whose lists were read, and writes them to memory of their own.
SublistsView read_sublists(const comm::Machine& machine, const HaloSource& source,
                           std::span<const NodeId> lists, HaloRegions& halo) {
  const Count num_lists = std::ssize(lists), num_edges = halo.indptr.data()[num_lists];
  std::optional<SublistShare> share;
  machine.together([&] {
    share.emplace(
        graph::RelationRanges(source.manifest.types),
        share_of({0, num_lists}, machine.rank(), machine.size()),
        [&](Range range, graph::SublistScan& scan) {
          source.loader.scan_lists(lists.subspan(at(range.first), at(range.count)), scan);
        },
        source.pool);
  });
  const auto [count, most] = share->count(machine);
  halo.sublists.emplace(
      SharedSublists{.first = HostArray<Count>::create(machine, num_lists + 1, "sublists of the halo"),
                     .begins = HostArray<Count>::create(machine, count + 1, "sublists of the halo"),
                     .nodes = HostArray<std::int32_t>::create(machine, count, "sublists of the halo"),
                     .relations = HostArray<RelationId>::create(machine, count, "sublists of the halo")});
  const SublistArrays arrays{.first = halo.sublists->first.data(),
                             .begins = halo.sublists->begins.data(),
                             .nodes = halo.sublists->nodes.data(),
                             .relations = halo.sublists->relations.data()};
  machine.together([&, size = count] {
    share->move_to(arrays, halo.indptr.data());
    if (machine.rank() > 0) return;
    arrays.first[num_lists] = size;
    arrays.begins[size] = num_edges;
  });
  return {.count = count,
          .most_per_node = most,
          .num_relations = static_cast<int>(source.manifest.types.edges.size()),
          .first = arrays.first,
          .begins = arrays.begins,
          .nodes = arrays.nodes,
          .relations = arrays.relations};
}

}  // namespace

HaloRegions read_halo(const comm::Machine& machine, const GraphRegions& regions, const HaloSource& source,
                      HaloNodes& nodes) {
  const plan::RegionSizes& sizes = regions.sizes;
  const std::span<const NodeId> lists = nodes.lists->span();
  const Count num_lists = std::ssize(lists), num_edges = nodes.indptr->data()[num_lists];
  HaloRegions halo{
      .indptr = std::move(*nodes.indptr),
      .indices = HostIds::create(machine, num_edges, sizes.wide_nodes(), "indices of the halo"),
      .edge_ids = HostArray<EdgeId>::create(machine, sizes.edge_ids ? num_edges : 0, "edge ids of the halo"),
      .weights = HostArray<float>::create(machine, sizes.weights ? num_edges : 0, "edge weights of the halo"),
      .sublists = {},
      .lists = {}};
  machine.together([&] {
    const Range own = share_of({0, num_lists}, machine.rank(), machine.size());
    const auto wanted = lists.subspan(at(own.first), at(own.count));
    source.loader.read_lists(wanted, halo.indptr.data() + own.first,
                             {.indices = &halo.indices,
                              .edge_ids = sizes.edge_ids ? &halo.edge_ids : nullptr,
                              .weights = sizes.weights ? &halo.weights : nullptr});
    regions.original_ids.visit([&](auto* ids) {
      for (Count i = own.first; i < own.end(); ++i) ids[sizes.num_nodes + i] = ids[lists[at(i)]];
    });
    halo.lists.index = NodeIndex(lists, sizes.num_nodes);
  });
  IdSpan original_ids = regions.original_ids.view();
  halo.lists.view = {{.device = {},
                      .num_nodes = sizes.num_nodes,
                      .first_node = sizes.num_nodes,
                      .num_local = num_lists,
                      .original_ids = original_ids},
                     {.indptr = halo.indptr.data(),
                      .indices = halo.indices.view(),
                      .edge_ids = {.data = halo.edge_ids.data(), .size = halo.edge_ids.size(), .wide = true},
                      .weights = sizes.weights ? halo.weights.data() : nullptr}};
  if (sizes.num_relations > 1) halo.lists.view.sublists = read_sublists(machine, source, lists, halo);
  return halo;
}

}  // namespace strata::store
