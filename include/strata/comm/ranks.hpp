// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "strata/comm/machine.hpp"

namespace strata::comm {

/// World ranks that compute on GPUs, or on the cpu. A run may have both, and what then leads to a collective
/// must follow from this, not from the device of a rank.
std::vector<int> ranks_on(const Topology& topology, Device::Kind kind);

/// For people: "rank 3 (host a)", "ranks 0, 1 (host a), 5 (host b)".
std::string names_of_ranks(const std::vector<int>& ranks, const std::vector<std::string>& host_of_rank);
std::string names_of_ranks(const std::vector<int>& ranks, const Topology& topology);

}  // namespace strata::comm
