// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "strata/batches/pipeline.hpp"
#include "strata/comm/machine.hpp"
#include "strata/store/machine_graph.hpp"

namespace strata::train {

/// Numbers of nodes of each split that have no target, over all machines. Training and scores leave them out.
struct MissingTargets {
  Count train = 0, valid = 0, test = 0;
};

/// Collective over `ranks`; the same on every rank.
MissingTargets count_missing(const batches::SeedTargets& targets, const store::MachineGraph& graph,
                             const comm::Ranks& ranks);

/// A sentence for people; empty where every node of the splits has a target.
std::string describe(const MissingTargets& missing, const graph::Manifest& manifest);

}  // namespace strata::train
