// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace strata {

std::int64_t resident_bytes();       ///< resident memory of this process now
std::int64_t peak_resident_bytes();  ///< its maximum so far
/// What new allocations may use: the lesser of MemAvailable and what the control groups leave.
std::int64_t available_host_bytes();

/// Returns memory that malloc kept for later to the operating system.
void return_freed_memory();

}  // namespace strata
