// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>

namespace strata::partition {

/// Throws OutOfMemory.
[[noreturn]] void refuse_device_memory(std::int64_t wanted_bytes, std::int64_t free_bytes,
                                       std::int64_t total_bytes);
/// Throws InputError. `why` is CUDA's message, or empty.
[[noreturn]] void refuse_device(const std::string& why);

}  // namespace strata::partition
