// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "strata/comm/communicator.hpp"

namespace strata::comm {

/// The ranks that could be reached, and those that could not.
struct Presence {
  bool complete = true;  ///< on every rank: rank 0 has received from all others, and this rank from rank 0
  /// Ranks without a word: on rank 0 those that it received nothing from, on others rank 0 if it has not
  /// answered.
  std::vector<int> missing = {};
  std::vector<std::string> words = {};  ///< on rank 0, by rank: what each has sent; empty for the missing
};

/// Exchanges a word of at most 255 bytes between rank 0 and each other rank, and waits for nobody longer than
/// `patience`, so that a network that carries no messages differs from a slow one. It needs no agreement
/// but these messages, so that even other versions of a program can introduce themselves. All ranks call it
/// before any other message of the run. Afterwards ranks that found the run incomplete can only end
/// it.
Presence check_presence(const World& world, const std::string& word, std::chrono::milliseconds patience);

}  // namespace strata::comm
