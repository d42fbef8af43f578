// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

/// Identities of processes that have the same host name, or share a host without sharing all of it. Each
/// is one line. Thread safe.
namespace strata::comm {

std::string memory_identity();   ///< the same for processes that share memory
std::string network_identity();  ///< the same for processes that reach each other over the loopback interface

/// Addresses at which other hosts may reach this one, IPv4 before IPv6: of the network interfaces that
/// GLOO_SOCKET_IFNAME lists, else of all that are up, except for the loopback interface.
std::vector<std::string> network_addresses();

}  // namespace strata::comm
