// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "strata/graph/source.hpp"

namespace strata::train {

/// Advice for the user of a failed run, with the launcher and the number of ranks of that run: "strata-doctor
/// may find more: mpirun -n 4 strata-doctor --graph parts". `graph` may be empty.
std::string doctor_advice(int ranks, const graph::Source& graph);

}  // namespace strata::train
