// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "c10d.hpp"
#include "environment.hpp"

namespace strata::torch_ranks {

/// What a rank sends the others at the start.
struct Arrival {
  int world_size = 0;
  std::string host;
  std::string memory;   ///< the same on ranks that share memory
  std::string network;  ///< the same on ranks that reach each other over the loopback interface

  static Arrival of_process(int world_size);
};

/// Connects to the store, which rank 0 opens unless the launcher has. Throws InputError if the port is in
/// use.
StorePtr open_store(const Environment& environment, std::chrono::milliseconds patience);

/// The port of a store of this process, which the first call opens; kept until the process ends.
std::uint16_t open_port();

/// Waits until all ranks have come; returns what they sent, by rank. Throws InputError if they disagree,
/// CommError that names the ranks that did not come.
std::vector<Arrival> arrive(c10d::Store& store, const Environment& environment,
                            std::chrono::milliseconds patience);

}  // namespace strata::torch_ranks
