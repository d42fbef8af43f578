// SPDX-License-Identifier: Apache-2.0
#include "loading/seed_schedule.hpp"

#include <algorithm>
#include <utility>

#include "strata/util/range_finder.hpp"

namespace strata::train {

SeedSchedule::SeedSchedule(const Options& options) : options_(options) {
  const auto machine = static_cast<std::size_t>(options.machine);
  const NodeId begin = options.machine_offsets[machine], end = options.machine_offsets[machine + 1];
  owns_all_ = std::ranges::all_of(options.train_nodes, [&](NodeId v) { return v >= begin && v < end; });
}

Count SeedSchedule::max_seeds() const {
  return (std::min(options_.global_batch, num_seeds()) + options_.machine_ranks - 1) / options_.machine_ranks;
}

/// The part of [0, count) that is this rank's share.
SeedSchedule::Share SeedSchedule::share_of(Count count) const {
  return {count * options_.local_rank / options_.machine_ranks,
          count * (options_.local_rank + 1) / options_.machine_ranks};
}

std::vector<NodeId> SeedSchedule::own_seeds(Count first, Count last, const Shuffle& order) const {
  const auto machine = static_cast<std::size_t>(options_.machine);
  const NodeId begin = options_.machine_offsets[machine], end = options_.machine_offsets[machine + 1];
  std::vector<NodeId> own;
  for (Count i = first; i < last; ++i) {
    const NodeId node = node_of(i, order);
    if (node >= begin && node < end) own.push_back(node);
  }
  return own;
}

/// Seeds of one part keep their order. Ids within a part ascend from hot to cold, so sorting would give the
/// first rank of a part the longest lists.
std::vector<NodeId> SeedSchedule::in_order_of_parts(std::vector<NodeId> own) const {
  RangeFinder part_of(options_.part_offsets);
  std::ranges::stable_sort(own, {}, [&](NodeId node) { return part_of(node); });
  return own;
}

SeedSchedule::Step SeedSchedule::step(std::uint32_t epoch, Count step_in_epoch) const {
  const Count first = step_in_epoch * options_.global_batch;
  const Count last = std::min(first + options_.global_batch, num_seeds());
  const std::uint64_t key = node_key({.seed = options_.seed, .epoch = epoch}, RandomUse::epoch_order, 0, 0);
  const Shuffle order(static_cast<std::uint64_t>(num_seeds()), key);

  Step step{.seeds = {}, .num_global = std::max<Count>(0, last - first)};
  if (owns_all_ && !has_parts()) {  // no need to look at the seeds of the machine's other ranks
    const Share share = share_of(step.num_global);
    for (Count i = first + share.begin; i < first + share.end; ++i) step.seeds.push_back(node_of(i, order));
    return step;
  }
  std::vector<NodeId> own = own_seeds(first, last, order);
  if (has_parts()) own = in_order_of_parts(std::move(own));
  const Share share = share_of(std::ssize(own));
  step.seeds.assign(own.begin() + share.begin, own.begin() + share.end);
  return step;
}

}  // namespace strata::train
