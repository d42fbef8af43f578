// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "strata/comm/backend.hpp"
#include "strata/comm/communicator.hpp"

namespace strata::comm {
namespace {

std::string boot() {
  std::ifstream stream("/proc/sys/kernel/random/boot_id");
  std::string line;
  std::getline(stream, line);
  return line;
}

/// Device and inode of a file of the kernel: the identity of what it stands for.
std::string identity(const char* path) {
  struct stat found {};
  return stat(path, &found) == 0 ? fmt::format("{}.{}", found.st_dev, found.st_ino) : "none";
}

bool is_wanted(const ifaddrs& interface) {
  if (interface.ifa_addr == nullptr) return false;
  const char* chosen = std::getenv("GLOO_SOCKET_IFNAME");
  if (chosen == nullptr)
    return (interface.ifa_flags & IFF_UP) != 0 && (interface.ifa_flags & IFF_LOOPBACK) == 0;
  std::istringstream names(chosen);
  for (std::string name; std::getline(names, name, ',');)
    if (name == interface.ifa_name) return true;
  return false;
}

/// An address as text; empty for one of another kind, and for one that is valid only on its own link.
std::string text_of(const sockaddr& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.sa_family == AF_INET)
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, text.data(), text.size());
  if (address.sa_family == AF_INET6) {
    const in6_addr& found = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
    if (!IN6_IS_ADDR_LINKLOCAL(&found)) inet_ntop(AF_INET6, &found, text.data(), text.size());
  }
  return text.data();
}

}  // namespace

std::string memory_identity() { return fmt::format("{} {} {}", host_name(), boot(), identity("/dev/shm/")); }

std::string network_identity() { return fmt::format("{} {}", boot(), identity("/proc/self/ns/net")); }

std::vector<std::string> network_addresses() {
  std::vector<std::string> found;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return found;
  for (const ifaddrs* interface = first; interface != nullptr; interface = interface->ifa_next) {
    if (!is_wanted(*interface)) continue;
    std::string text = text_of(*interface->ifa_addr);
    if (!text.empty()) found.push_back(std::move(text));
  }
  freeifaddrs(first);
  std::ranges::stable_partition(found,
                                [](const std::string& text) { return text.find(':') == std::string::npos; });
  return found;
}

}  // namespace strata::comm
