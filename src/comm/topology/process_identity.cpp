// SPDX-License-Identifier: Apache-2.0
#include "strata/comm/process_identity.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <fstream>

#include "strata/comm/backend.hpp"

namespace strata::comm {
namespace {

std::string boot() {
  std::ifstream stream("/proc/sys/kernel/random/boot_id");
  std::string line;
  std::getline(stream, line);
  return line;
}

/// Tells apart whatever the kernel numbers.
std::string identity(const char* path) {
  struct stat found {};
  return stat(path, &found) == 0 ? fmt::format("{}.{}", found.st_dev, found.st_ino) : "none";
}

}  // namespace

std::string memory_identity() { return fmt::format("{} {} {}", host_name(), boot(), identity("/dev/shm/")); }

std::string network_identity() { return fmt::format("{} {}", boot(), identity("/proc/self/ns/net")); }

}  // namespace strata::comm
