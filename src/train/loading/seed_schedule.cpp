// SPDX-License-Identifier: Apache-2.0
#include "loading/seed_schedule.hpp"

#include <algorithm>

namespace strata::train {

SeedSchedule::SeedSchedule(const Options& options) : options_(options) {
  const auto machine = static_cast<std::size_t>(options.machine);
  const NodeId begin = options.machine_offsets[machine], end = options.machine_offsets[machine + 1];
  owns_all_ = std::ranges::all_of(options.train_nodes, [&](NodeId v) { return v >= begin && v < end; });
}

Count SeedSchedule::max_seeds() const {
  return (std::min(options_.global_batch, num_seeds()) + options_.machine_ranks - 1) / options_.machine_ranks;
}

SeedSchedule::Step SeedSchedule::step(std::uint32_t epoch, Count step_in_epoch) const {
  const Count first = step_in_epoch * options_.global_batch;
  const Count last = std::min(first + options_.global_batch, num_seeds());
  const std::uint64_t key = node_key({.seed = options_.seed, .epoch = epoch}, RandomUse::epoch_order, 0, 0);
  const auto machine = static_cast<std::size_t>(options_.machine);
  const NodeId begin = options_.machine_offsets[machine], end = options_.machine_offsets[machine + 1];

  Step step{.seeds = {}, .num_global = std::max<Count>(0, last - first)};
  const Shuffle order(static_cast<std::uint64_t>(num_seeds()), key);
  const auto node_of = [&](Count i) { return options_.train_nodes[order(static_cast<std::uint64_t>(i))]; };
  if (owns_all_) {  // no need to look at the seeds of the machine's other ranks
    const Count from = step.num_global * options_.local_rank / options_.machine_ranks;
    const Count to = step.num_global * (options_.local_rank + 1) / options_.machine_ranks;
    for (Count i = first + from; i < first + to; ++i) step.seeds.push_back(node_of(i));
    return step;
  }
  std::vector<NodeId> owned;
  for (Count i = first; i < last; ++i) {
    const NodeId node = node_of(i);
    if (node >= begin && node < end) owned.push_back(node);
  }
  const auto count = static_cast<Count>(owned.size());
  const Count from = count * options_.local_rank / options_.machine_ranks;
  const Count to = count * (options_.local_rank + 1) / options_.machine_ranks;
  step.seeds.assign(owned.begin() + from, owned.begin() + to);
  return step;
}

}  // namespace strata::train
