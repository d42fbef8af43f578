// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace strata {

std::int64_t resident_bytes();       ///< of this process now
std::int64_t peak_resident_bytes();  ///< of this process so far
/// What new allocations may use: the least of MemAvailable and the cgroup's rest.
std::int64_t available_host_bytes();

/// Gives what malloc kept for later back to the operating system.
void return_freed_memory();

}  // namespace strata
