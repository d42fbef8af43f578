// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "strata/comm/machine.hpp"
#include "strata/store/machine_graph.hpp"

namespace strata::train {

/// Numbers of nodes of each split that have no label, over all machines. Training and scores leave them out.
struct Unlabelled {
  Count train = 0, valid = 0, test = 0;
};

/// Collective over `communicator`; the same on every rank.
Unlabelled count_unlabelled(const store::MachineGraph& graph, const comm::Machine& machine,
                            const comm::Communicator& communicator);

/// What to tell of them; empty where every node of the splits has a label.
std::string describe(const Unlabelled& unlabelled, const graph::Manifest& manifest);

}  // namespace strata::train
