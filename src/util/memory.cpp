// SPDX-License-Identifier: Apache-2.0
#include <malloc.h>

#include <string_view>

#include "field_in_file.hpp"
#include "strata/util/system.hpp"

namespace strata {
namespace {

/// A field of /proc/self/status; 0 if there is no such field.
std::int64_t status_bytes(std::string_view field) {
  constexpr std::int64_t kKib = 1024;
  return field_in_file("/proc/self/status", field).value_or(0) * kKib;
}

}  // namespace

std::int64_t resident_bytes() { return status_bytes("VmRSS:"); }
std::int64_t peak_resident_bytes() { return status_bytes("VmHWM:"); }

std::int64_t available_host_bytes() { return HostLimits().free_bytes(); }

void return_freed_memory() { malloc_trim(0); }

}  // namespace strata
