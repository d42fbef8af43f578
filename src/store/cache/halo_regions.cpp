// SPDX-License-Identifier: Apache-2.0
#include "cache/halo_regions.hpp"

#include <span>
#include <utility>

#include "strata/util/ranges.hpp"

namespace strata::store {

HaloRegions read_halo(const comm::Machine& machine, const GraphRegions& regions, PartLoader& loader,
                      HaloNodes& nodes) {
  const plan::RegionSizes& sizes = regions.sizes;
  const std::span<const NodeId> lists = nodes.lists->span();
  const Count num_lists = std::ssize(lists), num_edges = nodes.indptr->data()[num_lists];
  HaloRegions halo{
      .indptr = std::move(*nodes.indptr),
      .indices = HostIds::create(machine, num_edges, sizes.wide_nodes(), "indices of the halo"),
      .edge_ids = HostArray<EdgeId>::create(machine, sizes.edge_ids ? num_edges : 0, "edge ids of the halo"),
      .weights = HostArray<float>::create(machine, sizes.weights ? num_edges : 0, "edge weights of the halo"),
      .lists = {}};
  machine.together([&] {
    const Range own = share_of({0, num_lists}, machine.rank(), machine.size());
    const auto wanted = lists.subspan(at(own.first), at(own.count));
    loader.read_lists(wanted, halo.indptr.data() + own.first,
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
  return halo;
}

}  // namespace strata::store
