// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "cache/adjacency_cache.hpp"
#include "cache/fill_adjacency_cache.hpp"
#include "strata/comm/machine.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/util/ranges.hpp"

namespace strata::store {
AdjacencyCache::AdjacencyCache(const comm::Machine& machine, const HostLists& lists,
                               const plan::ListRanking& ranking, const tensor::Placement& wanted) {
  for (const HostLists::Array& array : lists.arrays) arrays_.push_back({.host = array});
  AdjacencyDirectory directory;
  machine.together([&] {
    ThreadPool pool(comm::resources_of(machine).cores);
    directory = choose_lists(ranking, lists.indptr, wanted, pool);
  });
  allocate(machine, directory.totals);
  drop_lacking(directory);
  placement_ = directory.placement;
  const tensor::Segment& totals = directory.totals;
  const Count num_replicated = totals[tensor::Stratum::replicated];
  if (totals.on_gpus() == 0) return;
  // If all lists are striped, copies lie in the order of the lists, and positions need not change.
  const Count first = directory.stripes_all() ? 0 : totals.rows();
  const std::span<const Count> part_nodes = ranking.part_nodes();
  machine.together([&] {
    const cuda::Stream stream(machine.device());
    lists_ = {.replicated = upload(directory.replicated, stream),
              .striped = upload(directory.striped, stream),
              .first_replicated = first,
              .first_striped = first + num_replicated};
    for (Array& array : arrays_) {
      const tensor::ArrayStrata strata = array.owner->strata();
      array.copies = {.first = first,
                      .num_replicated = num_replicated,
                      .replicated = strata.replicated,
                      .stripe_data = strata.stripe_data,
                      .stripes = strata.stripes};
    }
    fill(machine, lists.indptr_for_gpu, std::accumulate(part_nodes.begin(), part_nodes.end(), Count{0}),
         stream);
  });
  machine.barrier();  // stripes may be read when all ranks have written their shares
}

void AdjacencyCache::allocate(const comm::Machine& machine, const tensor::Segment& totals) {
  tensor::Placement copies{.segments = {totals}};
  copies.segments[0][tensor::Stratum::host] = 0;
  for (Array& array : arrays_) {
    array.owner.emplace(
        machine,
        tensor::TensorSpec{.name = array.host.name, .rows = totals.on_gpus(), .dtype = array.host.dtype},
        copies);
  }
}

void AdjacencyCache::drop_lacking(AdjacencyDirectory& directory) const {
  const bool lacking = std::ranges::any_of(arrays_, [](const Array& array) {
    return array.owner->placement().segments.front()[tensor::Stratum::host] > 0;
  });
  if (!lacking) return;
  for (tensor::Segment& part : directory.placement.segments)
    part.move(tensor::Stratum::striped, tensor::Stratum::host);
  directory.striped = {};
  directory.totals.move(tensor::Stratum::striped, tensor::Stratum::host);
}

const AdjacencyCacheView::Group* AdjacencyCache::upload(const AdjacencyDirectory::Groups& groups,
                                                        const cuda::Stream& stream) {
  if (groups.empty()) return nullptr;
  const std::size_t bytes = groups.size() * sizeof(AdjacencyCacheView::Group);
  groups_.emplace_back(cuda::Memory::device, bytes, "the directory of copied lists", stream.device());
  cuda::copy_async(groups_.back().data(), groups.data(), bytes, stream);
  return static_cast<const AdjacencyCacheView::Group*>(groups_.back().data());
}

void AdjacencyCache::fill(const comm::Machine& machine, const Count* indptr, Count num_nodes,
                          const cuda::Stream& stream) const {
  const Range all{0, num_nodes}, own = share_of(all, machine.rank(), machine.size());
  for (const Array& array : arrays_) {
    fill_adjacency_cache({.copies = lists_,
                          .entries = array.copies,
                          .indptr = indptr,
                          .data = array.host.data,
                          .wide = size_of(array.host.dtype) == 8},
                         all, own, stream);
  }
  stream.synchronize();
}

void AdjacencyCache::close(const comm::Machine& machine) {
  for (Array& array : arrays_) array.owner->close(machine);
}

}  // namespace strata::store
