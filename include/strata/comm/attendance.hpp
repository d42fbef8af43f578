// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "strata/comm/communicator.hpp"

namespace strata::comm {

/// Which ranks could be reached.
struct Attendance {
  bool complete = true;  ///< on every rank: rank 0 has heard all others, and this rank has heard rank 0
  /// On rank 0: ranks that it has not heard. On others: rank 0, if that has not answered.
  std::vector<int> missing = {};
  std::vector<std::string> words = {};  ///< on rank 0, by rank: what each has said; empty for the missing
};

/// Lets rank 0 and each other rank greet each other, with a word of at most 255 bytes, and waits for nobody
/// longer than `patience`, so that a network that carries no messages is told from a slow one. It needs no
/// agreement but these messages, so that even other versions of a program can introduce themselves. All ranks
/// call it before any other message of the run. Afterwards ranks that found it incomplete can only end the
/// run.
Attendance take_attendance(const World& world, const std::string& word, std::chrono::milliseconds patience);

}  // namespace strata::comm
