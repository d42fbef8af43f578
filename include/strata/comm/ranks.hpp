// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "strata/comm/machine.hpp"

namespace strata::comm {

/// World ranks that compute on this kind of device. A run may have ranks on GPUs and on the cpu; a decision
/// that leads to a collective must depend on these lists, not on the device of one rank.
std::vector<int> ranks_on(const Topology& topology, Device::Kind kind);

/// Text for people: "rank 3 (host a)", "ranks 0, 1 (host a), 5 (host b)".
std::string names_of_ranks(const std::vector<int>& ranks, const std::vector<std::string>& host_of_rank);
std::string names_of_ranks(const std::vector<int>& ranks, const Topology& topology);

}  // namespace strata::comm
