// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/util/threads.hpp"
#include "strata/util/types.hpp"

namespace strata::sampling {

/// Sets values[i] to the sum of values[0 .. i) for i <= count, and returns values[count], the sum of all.
/// REQUIRES: room for count + 1 values.
Count exclusive_scan(Count* values, Count count, ThreadPool& pool);

}  // namespace strata::sampling
