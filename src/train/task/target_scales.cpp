// SPDX-License-Identifier: Apache-2.0
#include "task/target_scales.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "strata/util/error.hpp"

namespace strata::train {
namespace {

constexpr const char* kScales = "target_scales";  // [[mean, deviation], ...]

}  // namespace

TargetScales read_scales(const ModelFacts& facts) {
  const auto found = facts.find(kScales);
  if (found == facts.end()) return {};
  TargetScales scales;
  try {
    for (const auto& [mean, deviation] :
         nlohmann::json::parse(found->second).get<std::vector<std::pair<double, double>>>())
      scales.push_back({.mean = mean, .deviation = deviation});
  } catch (const nlohmann::json::exception&) {
    throw InputError(fmt::format("the model's {} are no list of pairs", kScales), "Train it again.");
  }
  return scales;
}

void add_scales(const TargetScales& scales, ModelFacts& facts) {
  nlohmann::json columns = nlohmann::json::array();
  for (const graph::TargetScale& scale : scales) columns.push_back({scale.mean, scale.deviation});
  facts[kScales] = columns.dump();
}

void to_units(const TargetScales& scales, std::span<float> outputs) {
  for (std::size_t c = 0; c < outputs.size(); ++c)
    outputs[c] = static_cast<float>(outputs[c] * scales.at(c).deviation + scales.at(c).mean);
}

}  // namespace strata::train
