// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "strata/cuda/sm_group.hpp"

namespace strata::train {

/// The request of --sm-split.
struct SmSplitRequest {
  enum class Kind : std::uint8_t { automatic, off, given };
  Kind kind = Kind::automatic;
  cuda::SmShares shares = {};  ///< given: first loading, then training
};

/// "auto", "off", or "LOAD,TRAIN" in percent. Throws InputError.
SmSplitRequest parse_sm_split(const std::string& text);

constexpr cuda::SmShares kNoSmSplit{};  ///< both have all SMs

/// "10,90", or "off".
std::string name_of(const cuda::SmShares& shares);

/// The measured times of some splits, and the one that stays.
struct SmSplitResult {
  struct Time {
    cuda::SmShares shares;
    double seconds = 0;  ///< of a step
  };
  std::vector<Time> times;
  cuda::SmShares choice;
};

}  // namespace strata::train
