// SPDX-License-Identifier: Apache-2.0
#include "planning/batch_counts.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace strata::train {
namespace {

bool has(Range own, NodeId node) { return node >= own.first && node < own.end(); }

/// Counts the levels in which a row lies.
void add_heat(std::array<double, BatchProfile::kLevels>& heat, double place) {
  for (std::size_t level = 0; level < heat.size(); ++level)
    if (place < std::ldexp(1.0, -static_cast<int>(level))) ++heat[level];
}

}  // namespace

std::vector<std::vector<int>> fanouts_by_relation(const ProfiledJob& job, const graph::GraphTypes& types) {
  if (!job.relation_fanouts.empty()) return job.relation_fanouts;
  std::vector<std::vector<int>> fanouts;
  for (const int fanout : job.fanouts) fanouts.emplace_back(types.edges.size(), fanout);
  return fanouts;
}

void BatchCounts::add(std::vector<NodeId> nodes, const BatchKey& key, Range own) {
  std::ranges::sort(nodes);
  std::vector<NodeId> picks, found;
  for (std::size_t hop = 0; hop < fanouts_.size(); ++hop) {
    BatchProfile::Hop& of_hop = sum_.hops[hop];
    picks.clear();
    for (const NodeId node : nodes) {
      const Neighborhood::Picked taken =
          neighborhood_.pick(node, {key, static_cast<std::uint32_t>(hop), fanouts_[hop]}, picks);
      const auto count = static_cast<double>(taken.picks);
      ++of_hop.nodes;
      of_hop.picks += count;
      of_hop.sublists += static_cast<double>(taken.relations);
      if (has(own, node) || (copies_lists_ && neighborhood_.is_copied(node))) continue;
      ++of_hop.remote_nodes;
      of_hop.remote_picks += count;
    }
    std::ranges::sort(picks);
    picks.erase(std::unique(picks.begin(), picks.end()), picks.end());
    found.clear();
    std::ranges::set_union(nodes, picks, std::back_inserter(found));
    nodes.swap(found);
  }
  add_inputs(nodes, own);
  ++sum_.batches;
}

void BatchCounts::add_inputs(const std::vector<NodeId>& inputs, Range own) {
  for (const NodeId node : inputs) {
    const double place = neighborhood_.place_of(node);
    add_heat(sum_.heat, place);
    ++sum_.inputs;
    if (has(own, node) || neighborhood_.is_copied(node)) continue;
    add_heat(sum_.remote_heat, place);
    ++sum_.remote_inputs;
  }
}

BatchProfile BatchCounts::mean(Count steps_per_epoch) const {
  BatchProfile mean = sum_;
  mean.steps_per_epoch = steps_per_epoch;
  for (double& share : mean.heat) share /= std::max(1.0, mean.inputs);
  for (double& share : mean.remote_heat) share /= std::max(1.0, mean.remote_inputs);
  const double batches = std::max(1, mean.batches);
  mean.inputs /= batches;
  mean.remote_inputs /= batches;
  for (BatchProfile::Hop& hop : mean.hops)
    for (double* value : {&hop.nodes, &hop.picks, &hop.sublists, &hop.remote_nodes, &hop.remote_picks})
      *value /= batches;
  return mean;
}

}  // namespace strata::train
