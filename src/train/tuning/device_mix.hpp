// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "strata/comm/machine.hpp"
#include "strata/train/config.hpp"

/// Runs in which some ranks compute on GPUs and others on the cpu: the same batches and the same sums, so the
/// same losses, at the pace of the cpu. What ranks decide together follows from the topology there, never
/// from a rank's own device.
namespace strata::train {

bool is_mixed(const comm::Topology& topology);

/// "cuda", "cpu" or "mixed".
std::string device_name(const comm::Topology& topology);

/// Measuring ends in a sum over all ranks, so all of them must do it or none. Threads of the loader are
/// measured where a rank trains on the cpu, by ranks on GPUs, too; splits of the SMs where all ranks have
/// some.
bool measures_loader_threads(const TrainConfig& config, const comm::Topology& topology);
bool measures_sm_splits(const TrainConfig& config, const comm::Topology& topology);

/// Throws InputError, on all ranks alike, for options of a mixed run that only a GPU can follow.
void check_device_options(const TrainConfig& config, const comm::Topology& topology);

/// What to tell the user of a mixed run; empty for others.
std::string mix_warning(const comm::Topology& topology);

}  // namespace strata::train
