// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "strata/graph/source.hpp"

namespace strata::train {

/// What a user whose run failed may call: "strata-doctor may tell more: mpirun -n 4 strata-doctor --graph
/// parts", as the run of so many ranks was started. `graph` may be empty.
std::string doctor_advice(int ranks, const graph::Source& graph);

}  // namespace strata::train
