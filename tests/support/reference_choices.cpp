// SPDX-License-Identifier: Apache-2.0
#include "support/reference_choices.hpp"

#include <algorithm>
#include <numeric>

#include "choosers/choice_rules.hpp"

namespace strata::test {
namespace {

using namespace sampling;

std::uint64_t key_of(const Choice& c) {
  return node_key(c.key, RandomUse::sample, c.hop, c.graph.original_ids[at(c.node)], c.relation);
}

std::vector<float> weights_of(const Choice& c) {
  return {c.graph.weights.begin() + c.begin, c.graph.weights.begin() + c.end};
}

}  // namespace

std::vector<Count> replacing_positions(const Choice& c) {
  std::vector<Count> positions;
  const auto degree = static_cast<std::uint64_t>(c.degree());
  for (std::uint64_t pick = 0; degree > 0 && pick < static_cast<std::uint64_t>(c.fanout); ++pick)
    positions.push_back(static_cast<Count>(below(keyed_word(key_of(c), pick), degree)));
  return positions;
}

std::vector<Count> weighted_positions(const Choice& c) {
  const std::vector<float> weights = weights_of(c);
  std::vector<std::uint64_t> arrivals;
  for (std::uint32_t p = 0; p < weights.size(); ++p)
    if (weights[p] > 0) arrivals.push_back(arrival(keyed_word(key_of(c), p), weights[p], p));
  std::ranges::sort(arrivals);
  arrivals.resize(std::min(arrivals.size(), at(c.fanout)));
  std::vector<Count> positions;
  for (const std::uint64_t arrived : arrivals) positions.push_back(static_cast<Count>(arrived & 0xFFFFFFFFu));
  std::ranges::sort(positions);
  return positions;
}

std::vector<Count> weighted_replacing_positions(const Choice& c) {
  const std::vector<float> weights = weights_of(c);
  if (std::ranges::none_of(weights, [](float w) { return w > 0; })) return {};
  const WholeWeights whole(std::ranges::max(weights), static_cast<std::uint32_t>(weights.size()));
  std::uint64_t sum = 0;
  for (const float w : weights) sum += whole(w);
  std::vector<Count> positions;
  for (std::uint64_t pick = 0; pick < static_cast<std::uint64_t>(c.fanout); ++pick) {
    std::uint64_t left = below(keyed_word(key_of(c), pick), sum);
    std::size_t p = 0;
    for (; left >= whole(weights[p]); ++p) left -= whole(weights[p]);
    positions.push_back(static_cast<Count>(p));
  }
  return positions;
}

std::vector<Count> labor_positions(const Choice& c, bool layer_dependent) {
  const LaborRule rule(c.key, c.hop, layer_dependent);
  const Count degree = c.degree();
  std::vector<Count> positions;
  for (Count p = 0; p < degree; ++p) {
    const NodeId source = c.graph.original_ids[at(c.graph.indices[at(c.begin + p)])];
    const bool taken =
        degree <= c.fanout || rule.of_source(source) < LaborRule::limit(static_cast<std::uint32_t>(c.fanout),
                                                                        static_cast<std::uint32_t>(degree));
    if (taken) positions.push_back(p);
  }
  return positions;
}

}  // namespace strata::test
