// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>

namespace strata::torch_ranks {

/// What the launcher has set for this process.
struct Environment {
  int rank = 0;
  int world_size = 1;
  std::string address;  ///< of the store
  std::uint16_t port = 0;
  bool launcher_has_store = false;  ///< torchrun keeps the store; else rank 0 does
  bool store_is_open = false;       ///< the process of rank 0 has opened it before (MeetingPlace)
  std::string attempt;              ///< of a torchrun that starts failed runs again, on the same store; or of
                                    ///< worlds that meet there (MeetingPlace::number)

  bool rank_opens_store() const { return rank == 0 && !launcher_has_store && !store_is_open; }
};

/// Throws InputError if a variable is missing or wrong.
Environment read_environment();

}  // namespace strata::torch_ranks
