// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/util/thread_pool.hpp"
#include "strata/util/types.hpp"

namespace strata::sampling {

/// values[i] = sum of values[0 .. i) for i <= count; returns values[count], the sum of all. REQUIRES: room
/// for count + 1.
Count exclusive_scan(Count* values, Count count, ThreadPool& pool);

}  // namespace strata::sampling
