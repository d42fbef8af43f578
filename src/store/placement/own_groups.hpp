// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "heat.hpp"
#include "strata/placement/keep_plan.hpp"
#include "strata/store/load_options.hpp"

namespace strata::store {

struct OwnSizes {
  std::int64_t row_bytes = 0, entry_bytes = 0;  ///< of a feature row, of an entry of a neighbor list
  int stripes = 1;                              ///< GPUs that share what is kept
};

/// What a batch saves by this machine's own rows and lists on GPUs instead of in host memory: the segments of
/// `accesses`, piece by piece, in bytes per GPU. A pure function.
std::vector<placement::KeepGroup> own_groups(const BatchAccesses& accesses, const OwnSizes& sizes,
                                             const ExchangeCosts& costs);

}  // namespace strata::store
