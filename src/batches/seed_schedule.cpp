// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "strata/batches/pipeline.hpp"
#include "strata/util/ranges.hpp"

namespace strata::batches {

class SeedSchedule::Order {
 public:
  Order(const Options& options, std::uint32_t epoch)
      : shuffled_(options.shuffle),
        shuffle_(options.nodes.size(),
                 node_key({.seed = options.seed, .epoch = epoch}, RandomUse::epoch_order, 0, 0)) {}
  /// Where the node at a position of the epoch lies among all nodes.
  std::size_t place(Count position) const {
    const auto i = static_cast<std::uint64_t>(position);
    return shuffled_ ? shuffle_(i) : i;
  }

 private:
  bool shuffled_;
  Shuffle shuffle_;
};

SeedSchedule::SeedSchedule(const Options& options) : options_(options) {
  const auto machine = at(options.machine);
  const NodeId begin = options.machine_offsets[machine], end = options.machine_offsets[machine + 1];
  owns_all_ = std::ranges::all_of(options.nodes, [&](NodeId v) { return v >= begin && v < end; });
  const auto steps_of = [&](Count nodes, Count batch) {
    return options_.drop_last ? nodes / batch : num_steps(nodes, batch);
  };
  if (!has_own_nodes()) {
    num_seeds_ = std::ssize(options_.nodes);
    steps_ = steps_of(num_seeds_, options_.global_batch);
  }
  for (const Count nodes : options_.nodes_of_rank) {
    num_seeds_ += nodes;
    steps_ = std::max(steps_, steps_of(nodes, own_batch()));
  }
}

SeedSchedule::Share SeedSchedule::slice(Count step, Count nodes, Count batch) const {
  const Count all = options_.drop_last ? nodes / batch * batch : nodes;
  return {std::min(step * batch, all), std::min((step + 1) * batch, all)};
}

Count SeedSchedule::num_global_seeds(Count first, Count last) const {
  const auto between = [&](Count nodes, Count batch) {
    return slice(last, nodes, batch).begin - slice(first, nodes, batch).begin;
  };
  if (!has_own_nodes()) return between(num_seeds_, options_.global_batch);
  Count seeds = 0;
  for (const Count nodes : options_.nodes_of_rank) seeds += between(nodes, own_batch());
  return seeds;
}

Count SeedSchedule::max_seeds() const {
  return options_.links == nullptr
             ? most_places()
             : options_.links->most_nodes(most_places(), std::min(options_.global_batch, num_seeds()));
}

Count SeedSchedule::max_excluded() const {
  if (options_.links == nullptr) return 0;
  return options_.links->most_excluded(std::min(options_.global_batch, num_seeds()));
}

Count SeedSchedule::most_places() const {
  if (has_own_nodes()) return std::min(own_batch(), static_cast<Count>(options_.nodes.size()));
  return (std::min(options_.global_batch, num_seeds()) + options_.machine_ranks - 1) / options_.machine_ranks;
}

/// The part of [0, count) that is this rank's share.
SeedSchedule::Share SeedSchedule::share_of(Count count) const {
  return {count * options_.local_rank / options_.machine_ranks,
          count * (options_.local_rank + 1) / options_.machine_ranks};
}

/// Seeds of one group keep their order. Ids within a part ascend from hot to cold, so sorting would give the
/// first rank of a part the longest lists.
std::vector<SeedSchedule::Seed> SeedSchedule::own_seeds(Count first, Count last, const Order& order) const {
  const auto machine = at(options_.machine);
  const NodeId begin = options_.machine_offsets[machine], end = options_.machine_offsets[machine + 1];
  RangeFinder part_of(options_.part_offsets);
  std::vector<Seed> own;
  for (Count i = first; i < last; ++i) {
    const std::size_t place = order.place(i);
    const NodeId node = options_.nodes[place];
    if (node < begin || node >= end) continue;
    own.push_back({.node = node, .place = place, .number = i - first, .group = 0});
    if (!has_groups()) continue;
    own.back().group =
        options_.clusters.empty() ? static_cast<std::int32_t>(part_of(node)) : options_.clusters[place];
  }
  if (has_groups()) std::ranges::stable_sort(own, {}, &Seed::group);
  return own;
}

SeedSchedule::Step SeedSchedule::step(std::uint32_t epoch, Count step_in_epoch) const {
  Step step;
  step.num_global = num_global_seeds(step_in_epoch, step_in_epoch + 1);
  add_own(step, epoch, step_in_epoch);
  if (options_.links != nullptr) make_pairs(step, epoch, step_in_epoch);
  return step;
}

void SeedSchedule::make_pairs(Step& step, std::uint32_t epoch, Count step_in_epoch) const {
  std::vector<Count> all;
  if (options_.links->looks_at_all()) {
    const Order order(options_, epoch);
    const auto [first, last] = slice(step_in_epoch, num_seeds_, options_.global_batch);
    if (std::ssize(step.places) == last - first && !has_groups())
      all = step.places;
    else
      for (Count i = first; i < last; ++i) all.push_back(static_cast<Count>(order.place(i)));
  }
  const auto number = static_cast<std::uint32_t>(static_cast<Count>(epoch) * steps_ + step_in_epoch);
  step.links = options_.links->pairs_of({.links = step.places,
                                         .numbers = step.numbers,
                                         .all_links = all,
                                         .key = {.seed = options_.seed, .epoch = epoch, .step = number}},
                                        step.seeds);
}

/// Adds what falls to this rank.
void SeedSchedule::add_own(Step& step, std::uint32_t epoch, Count step_in_epoch) const {
  const Order order(options_, epoch);
  const bool own_nodes = has_own_nodes();
  const auto [first, last] = own_nodes ? slice(step_in_epoch, std::ssize(options_.nodes), own_batch())
                                       : slice(step_in_epoch, num_seeds_, options_.global_batch);
  const auto add = [&, begin = first](Count position) {
    const std::size_t place = order.place(position);
    step.add(options_.nodes[place], place, position - begin);
  };
  if (own_nodes) {
    for (Count i = first; i < last; ++i) add(i);
    return;
  }
  if (owns_all_ && !has_groups()) {  // no need to look at the seeds of the machine's other ranks
    const Share share = share_of(step.num_global);
    for (Count i = first + share.begin; i < first + share.end; ++i) add(i);
    return;
  }
  const std::vector<Seed> own = own_seeds(first, last, order);
  const Share share = share_of(std::ssize(own));
  for (Count i = share.begin; i < share.end; ++i) {
    const Seed& seed = own[at(i)];
    step.add(seed.node, seed.place, seed.number);
  }
}

}  // namespace strata::batches
