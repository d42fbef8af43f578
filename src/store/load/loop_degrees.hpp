// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "graph_regions.hpp"
#include "strata/comm/machine.hpp"

namespace strata::store {

/// Takes self-loops out of the in-degrees, which count them so far; see LoadOptions::degrees_of_loops.
/// Collective over `world`: the ranks of all machines among which the graph is divided.
void leave_loops_out(const GraphRegions& regions, const comm::Machine& machine,
                     const comm::Communicator& world);

}  // namespace strata::store
