// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

/// What tells processes apart that have the same host name, or share a host without sharing all of it. Each
/// is one line. Thread safe.
namespace strata::comm {

std::string memory_identity();   ///< the same for processes that share memory
std::string network_identity();  ///< the same for processes that reach each other over the loopback interface

}  // namespace strata::comm
