// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "strata/comm/communicator.hpp"
#include "strata/train/config.hpp"

namespace strata::train {

/// Checks that all ranks have the same options; otherwise they would enter different collectives and wait for
/// each other forever. Throws InputError on all ranks, with the options that differ, if those of a rank
/// differ from those of rank 0. Names of files may differ, and how much memory and how many threads serve a
/// rank's GPU. Collective.
void require_same_config(const TrainConfig& config, const comm::Communicator& communicator);

/// "--hidden 64 instead of 128, --lr 0.5 instead of 0.003": the options of `mine` whose values are others in
/// `others`; both are objects of JSON with option names.
std::string differences(const std::string& mine, const std::string& others);

}  // namespace strata::train
