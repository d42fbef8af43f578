// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "strata/util/types.hpp"

namespace strata::sampling {

/// Appends the positions that a uniform sampler takes of a list of `degree` neighbors, `fanout` of them.
/// `key` is that of the node's choice (node_key). REQUIRES: 0 <= fanout < degree.
void append_uniform_picks(Count degree, int fanout, std::uint64_t key, std::vector<Count>& positions);

}  // namespace strata::sampling
