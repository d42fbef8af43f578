#pragma once
#include <cstdint>

#include "strata/util/random.hpp"

namespace strata::sampling {

/// positions[j] = what slot j of the subset takes, for j < count. The same as slot by slot, in vectors where
/// the CPU has them.
void choose_subset(const Subset& subset, int count, std::uint32_t* positions);

}  // namespace strata::sampling
