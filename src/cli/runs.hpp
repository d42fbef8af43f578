// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/cli/program.hpp"
#include "strata/comm/communicator.hpp"
#include "strata/train/trainer.hpp"

namespace strata::cli {

/// Does what the options ask for, and prints the results: one training run, one per seed, or a use of a
/// trained model. Returns the exit code. Collective; throws what the libraries throw.
int execute(const ParsedOptions& options, const comm::World& world, train::StopListener& stop,
            const train::ModelFactory& make_model);

}  // namespace strata::cli
