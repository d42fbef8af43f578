// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "strata/util/random.hpp"

namespace strata::sampling {

/// Sets positions[j] to the position that pick j of the subset takes, for j < count. The result is the same
/// as pick by pick; vector instructions are used if the CPU has them.
void choose_subset(const Subset& subset, int count, std::uint32_t* positions);

}  // namespace strata::sampling
