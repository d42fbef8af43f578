// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/comm/communicator.hpp"
#include "strata/train/config.hpp"

namespace strata::train {

/// Ranks with different options would enter different collectives and wait for each other for ever. Throws
/// InputError on all ranks, naming the options that differ, where a rank was given others than rank 0. What
/// may differ: the names of files, and how much memory and how many threads serve a rank's GPU. Collective.
void require_same_config(const TrainConfig& config, const comm::Communicator& communicator);

}  // namespace strata::train
