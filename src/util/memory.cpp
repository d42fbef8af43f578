#include "strata/util/memory.hpp"

#include <malloc.h>

#include <fstream>
#include <string>

#include "strata/util/host_limits.hpp"

namespace strata {
namespace {

/// The value in bytes of a line "Name:  123 kB" of /proc/self/status; 0 if there is none.
std::int64_t status_field(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    std::int64_t kib = 0;
    if (word == name + ":" && file >> kib) return kib * 1024;
  }
  return 0;
}

}  // namespace

std::int64_t resident_bytes() { return status_field("VmRSS"); }
std::int64_t peak_resident_bytes() { return status_field("VmHWM"); }

std::int64_t available_host_bytes() { return HostLimits().free_bytes(); }

void return_freed_memory() { malloc_trim(0); }

}  // namespace strata
