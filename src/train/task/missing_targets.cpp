// SPDX-License-Identifier: Apache-2.0
#include "task/missing_targets.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <vector>

#include "strata/util/text.hpp"

namespace strata::train {

MissingTargets count_missing(const batches::SeedTargets& targets, const store::MachineGraph& graph,
                             const comm::Ranks& ranks) {
  if (!targets) return {};
  const store::GraphView& view = graph.host_view();
  const auto count = [&](std::span<const NodeId> nodes) {
    std::int64_t without = 0;
    for (const NodeId v : nodes) without += view.owns(v) && !targets.has(v - view.first_node);
    return without;
  };
  std::array<std::int64_t, 3> counts{};
  if (ranks.machine->rank() == 0)
    counts = {count(graph.train_nodes()), count(graph.valid_nodes()), count(graph.test_nodes())};
  ranks.world->all_reduce(std::span(counts));
  return {.train = counts[0], .valid = counts[1], .test = counts[2]};
}

std::string describe(const MissingTargets& missing, const graph::Manifest& manifest) {
  std::vector<std::string> parts;
  const auto add = [&](Count without, Count all, const char* split) {
    if (without > 0)
      parts.push_back(fmt::format("{} of {} {}", format_count(without), format_count(all), split));
  };
  add(missing.train, manifest.num_train, "training");
  add(missing.valid, manifest.num_valid, "validation");
  add(missing.test, manifest.num_test, "test");
  if (parts.empty()) return "";
  return fmt::format("{} nodes have no label: they count neither for the loss nor for scores",
                     fmt::join(parts, ", "));
}

}  // namespace strata::train
