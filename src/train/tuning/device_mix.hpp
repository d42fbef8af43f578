// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "strata/comm/machine.hpp"
#include "strata/train/config.hpp"

/// Mixed runs, in which some ranks compute on GPUs and others on the cpu. They have the same batches, sums
/// and losses, at the speed of the cpu. What ranks decide together must follow from the topology, never from
/// a rank's own device.
namespace strata::train {

bool is_mixed(const comm::Topology& topology);

/// "cuda", "cpu" or "mixed".
std::string device_name(const comm::Topology& topology);

/// Whether --sm-split names shares.
bool gives_sm_split(const TrainConfig& config);

/// Whether ranks measure loader threads or splits of the SMs. Measuring ends in a sum over all ranks, so all
/// measure or none: loader threads if one rank trains on the cpu, splits if every rank has a GPU.
bool measures_loader_threads(const TrainConfig& config, const comm::Topology& topology);
bool measures_sm_splits(const TrainConfig& config, const comm::Topology& topology);

/// Throws InputError, on all ranks alike, for options that these machines and devices cannot follow.
void check_device_options(const TrainConfig& config, const comm::Topology& topology);

/// A warning for the user of a mixed run; empty for other runs.
std::string mix_warning(const comm::Topology& topology);

}  // namespace strata::train
