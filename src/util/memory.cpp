#include "strata/util/memory.hpp"

#include <malloc.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace strata {
namespace {

/// The value in bytes of a line "Name:  123 kB"; -1 if there is none.
std::int64_t field_of(const char* file_name, const std::string& name) {
  std::ifstream file(file_name);
  for (std::string word; file >> word;) {
    std::int64_t kib = 0;
    if (word == name + ":" && file >> kib) return kib * 1024;
  }
  return -1;
}

std::int64_t number_in(const char* file_name) {
  std::ifstream file(file_name);
  std::int64_t value = -1;
  return file >> value ? value : -1;
}

}  // namespace

std::int64_t resident_bytes() { return std::max<std::int64_t>(0, field_of("/proc/self/status", "VmRSS")); }
std::int64_t peak_resident_bytes() {
  return std::max<std::int64_t>(0, field_of("/proc/self/status", "VmHWM"));
}

std::int64_t available_host_bytes() {
  std::int64_t available = field_of("/proc/meminfo", "MemAvailable");
  if (available < 0) available = std::numeric_limits<std::int64_t>::max();
  const std::int64_t limit = number_in("/sys/fs/cgroup/memory.max");
  const std::int64_t used = number_in("/sys/fs/cgroup/memory.current");
  if (limit > 0 && used >= 0) available = std::min(available, std::max<std::int64_t>(0, limit - used));
  return available;
}

void return_freed_memory() { malloc_trim(0); }

}  // namespace strata
