#include <algorithm>
#include <numeric>

#include "copied_lists.hpp"
#include "copy_lists.hpp"
#include "shares.hpp"
#include "strata/comm/resources.hpp"

namespace strata::store {
namespace {

/// Of a block of stripes: long enough for most lists to lie on one GPU.
constexpr Count kStripeEntries = 4096;

Placement placement_of_copies(const Segment& totals) {
  return {.segments = {{.replicated = totals.replicated, .striped = totals.striped}},
          .stripe_rows = kStripeEntries};
}

}  // namespace

CopiedLists::CopiedLists(const comm::Machine& machine, const HostLists& lists, const ListRanking& ranking,
                         const Placement& wanted) {
  for (const HostLists::Array& array : lists.arrays) arrays_.push_back({.host = array});
  ListDirectory directory;
  machine.together([&] {
    ThreadPool pool(comm::resources_of(machine).cores);
    directory = choose_lists(ranking, lists.indptr, wanted, pool);
  });
  allocate(machine, directory.totals);
  drop_stripes(machine, directory);
  placement_ = directory.placement;
  const Segment& totals = directory.totals;
  if (totals.replicated + totals.striped == 0) return;
  // Where all lists have copies that lie as the lists do, positions stay as they are.
  const Count first = directory.stripes_all() ? 0 : totals.rows();
  const std::span<const Count> part_nodes = ranking.part_nodes();
  machine.together([&] {
    const cuda::Stream stream(machine.device());
    lists_ = {.replicated = upload(directory.replicated, stream),
              .striped = upload(directory.striped, stream),
              .first_replicated = first,
              .first_striped = first + totals.replicated};
    for (Array& array : arrays_) {
      adopt(array, totals);
      array.copies.first = first;
    }
    fill(machine, lists.indptr_for_gpu, std::accumulate(part_nodes.begin(), part_nodes.end(), Count{0}),
         stream);
  });
  machine.barrier();  // stripes are read once all ranks have written their shares
}

void CopiedLists::allocate(const comm::Machine& machine, const Segment& totals) {
  const Placement copies = placement_of_copies(totals);
  for (Array& array : arrays_) {
    const TensorSpec spec{
        .name = array.host.name, .rows = totals.replicated + totals.striped, .dtype = array.host.dtype};
    validate(spec, copies);
    machine.together([&] {
      array.strata = std::make_unique<GpuStrata>(machine.device(), spec, comm::resources_of(machine));
    });
    array.strata->allocate(machine, copies);
  }
}

void CopiedLists::adopt(Array& array, const Segment& totals) const {
  array.strata->adopt(Layout(placement_of_copies(totals)), nullptr);
  const ArrayStrata strata = array.strata->array_strata();
  array.copies = {.num_replicated = totals.replicated,
                  .replicated = strata.replicated,
                  .stripe_data = strata.stripe_data,
                  .stripes = strata.stripes};
}

void CopiedLists::drop_stripes(const comm::Machine& machine, ListDirectory& directory) const {
  const auto lacking =
      std::ranges::find_if(arrays_, [](const Array& array) { return array.strata->lacks().stripes; });
  if (lacking == arrays_.end()) return;
  move_lacking_to_host(machine, {.name = lacking->host.name}, lacking->strata->lacks(), directory.placement);
  directory.striped = {};
  directory.totals.host += std::exchange(directory.totals.striped, 0);
}

const ListCopies::Group* CopiedLists::upload(const ListDirectory::Groups& groups,
                                             const cuda::Stream& stream) {
  if (groups.empty()) return nullptr;
  const std::size_t bytes = groups.size() * sizeof(ListCopies::Group);
  groups_.emplace_back(cuda::Memory::device, bytes, "the directory of copied lists", stream.device());
  cuda::copy_async(groups_.back().data(), groups.data(), bytes, stream);
  return static_cast<const ListCopies::Group*>(groups_.back().data());
}

void CopiedLists::fill(const comm::Machine& machine, const Count* indptr, Count num_nodes,
                       const cuda::Stream& stream) const {
  const Range all{0, num_nodes}, own = share_of(all, machine.rank(), machine.size());
  for (const Array& array : arrays_) {
    copy_lists({.copies = lists_,
                .entries = array.copies,
                .indptr = indptr,
                .data = array.host.data,
                .wide = size_of(array.host.dtype) == 8},
               all, own, stream);
  }
  stream.synchronize();
}

void CopiedLists::close(const comm::Machine& machine) {
  for (const Array& array : arrays_) array.strata->close(machine);
}

}  // namespace strata::store
