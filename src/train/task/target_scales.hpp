// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <vector>

#include "strata/graph/graph.hpp"
#include "strata/train/task.hpp"

/// The scales of targets of regression that a model has learned, in the metadata of its file.
namespace strata::train {

using TargetScales = std::vector<graph::TargetScale>;

/// Empty if the facts have none. Throws InputError for what is no list of scales.
TargetScales read_scales(const ModelFacts& facts);
void add_scales(const TargetScales& scales, ModelFacts& facts);

/// Turns what a model computes into the targets' own units.
void to_units(const TargetScales& scales, std::span<float> outputs);

}  // namespace strata::train
