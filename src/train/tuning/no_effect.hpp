// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "strata/comm/machine.hpp"
#include "strata/graph/part_file.hpp"
#include "strata/train/config.hpp"

/// Options between machines that have no effect on the machines at hand, or on this graph. They are warned of
/// and not refused, so that the same command works on one machine and on several.
namespace strata::train {

/// One line per option that was asked for.
std::vector<std::string> options_without_effect(const TrainConfig& config, const comm::Topology& topology);

/// The same, for what the graph decides on several machines.
std::vector<std::string> options_without_effect(const TrainConfig& config, const graph::Manifest& manifest);

}  // namespace strata::train
