// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "strata/util/random.hpp"

namespace strata::sampling {

/// positions[j] = what pick j of the subset takes, for j < count. The same as pick by pick, in vectors where
/// the CPU has them.
void choose_subset(const Subset& subset, int count, std::uint32_t* positions);

}  // namespace strata::sampling
