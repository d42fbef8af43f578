// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>

#include "strata/cuda/sm_group.hpp"

namespace strata::train {

/// What --sm-split asks for.
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

}  // namespace strata::train
